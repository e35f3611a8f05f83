package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A mint is a source of keys that a test writes. It records when it was asked.
type mint struct {
	began  time.Time
	asked  []string
	answer func(n int) (key string, life time.Duration, err error) // no life: no end is known
	takes  time.Duration
}

func (m *mint) source(ctx context.Context) (string, time.Time, error) {
	m.asked = append(m.asked, time.Since(m.began).String())
	time.Sleep(m.takes) // of the bubble
	key, life, err := m.answer(len(m.asked))
	if life == 0 {
		return key, time.Time{}, err
	}
	return key, time.Now().Add(life), err
}

// run runs a key in a bubble of its own.
func (m *mint) run(t *testing.T, test func(k *Key)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m.began = time.Now()
		k := NewKey(m.source, nil)
		test(k)
		k.Close()
	})
}

func (m *mint) when() string { return strings.Join(m.asked, " ") }

func (k *Key) now() string {
	key, err := k.get(context.Background())
	if err != nil {
		return "no key: " + err.Error()
	}
	return key
}

// A key of an hour is replaced five minutes before its end. The first caller waits for the first one.
func TestKeyIsRenewedBeforeItsEnd(t *testing.T) {
	m := &mint{takes: 2 * time.Second, answer: func(n int) (string, time.Duration, error) { return fmt.Sprint("key ", n), time.Hour, nil }}
	m.run(t, func(k *Key) {
		for _, step := range []struct {
			after time.Duration
			want  string
		}{{0, "key 1"}, {55 * time.Minute, "key 1"}, {3 * time.Second, "key 2"}, {54 * time.Minute, "key 2"}, {2 * time.Minute, "key 3"}} {
			time.Sleep(step.after)
			if got := k.now(); got != step.want {
				t.Errorf("after %s: got %s, want %s", time.Since(m.began), got, step.want)
			}
		}
	})
	if got := m.when(); got != "0s 55m2s 1h50m4s" {
		t.Errorf("asked at %s", got)
	}
}

// While the source fails, the key before serves to its end, and not longer.
func TestOldKeyServesToItsEnd(t *testing.T) {
	m := &mint{answer: func(n int) (string, time.Duration, error) {
		if n > 1 && n < 14 {
			return "", 0, errors.New("vault is sealed, key 1 too")
		}
		return fmt.Sprint("key ", n), time.Hour, nil
	}}
	m.run(t, func(k *Key) {
		time.Sleep(59 * time.Minute)
		s := k.State(time.Now())
		if got := k.now(); got != "key 1" || s.Err == nil || s.Err.Error() != "vault is sealed, ***** too" || !s.Serves || time.Until(s.Ends) != time.Minute || time.Since(s.Since) != 4*time.Minute {
			t.Errorf("got %s, %+v", got, s)
		}
		time.Sleep(time.Minute)
		if got, s := k.now(), k.State(time.Now()); got != "no key: vault is sealed, ***** too" || s.Serves {
			t.Errorf("got %s, %+v", got, s)
		}
		time.Sleep(6 * time.Minute)
		if got, s := k.now(), k.State(time.Now()); got != "key 14" || s.Err != nil || !s.Serves {
			t.Errorf("got %s, %+v", got, s)
		}
	})
	want := "0s 55m0s 55m30s 56m0s 56m30s 57m0s 57m30s 58m0s 58m30s 59m0s 59m30s 1h0m0s 1h0m30s 1h1m0s"
	if got := m.when(); got != want {
		t.Errorf("asked at %s", got)
	}
}

// A source that prints a key that is over has failed, whatever came before.
func TestKeyThatIsOver(t *testing.T) {
	var lives atomic.Bool
	m := &mint{answer: func(int) (string, time.Duration, error) {
		if lives.Load() {
			return "the key", 2 * time.Second, nil
		}
		return "the key", -time.Second, nil
	}}
	m.run(t, func(k *Key) {
		if got := k.now(); !strings.HasPrefix(got, "no key: it printed a key that is over: it ended at 1999-12-31T23:59:59Z") {
			t.Error(got)
		}
		lives.Store(true)
		time.Sleep(retryAfter + time.Millisecond)
		if got := k.now(); got != "the key" {
			t.Error(got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(m.asked); n > 45 {
			t.Errorf("asked %d times in a minute for a key of two seconds", n)
		}
	})
}

// A source is asked once after a 401. A key that stays refused is no loop, whatever the source prints;
// a good answer in between is the end of it.
func TestKeyOnceAfter401(t *testing.T) {
	for name, key := range map[string]func(n int) string{
		"another one each time": func(n int) string { return fmt.Sprint("key ", n) },
		"the same one":          func(int) string { return "the key" },
	} {
		t.Run(name, func(t *testing.T) {
			m := &mint{takes: time.Second, answer: func(n int) (string, time.Duration, error) { return key(n), 0, nil }}
			m.run(t, func(k *Key) {
				call := func(status, times, want int) {
					t.Helper()
					for range times {
						k.answered(k.now(), status)
						time.Sleep(time.Minute)
					}
					if len(m.asked) != want {
						t.Errorf("asked %d times, want %d", len(m.asked), want)
					}
				}
				call(200, 3, 1)
				call(403, 3, 1)
				call(401, 100, 2)
				call(500, 2, 2)
				call(401, 2, 2)
				call(200, 1, 2)
				call(401, 5, 3)
				k.answered("a key before", 200)
				call(401, 5, 3)
				k = NewKey(m.source, k) // a reload
				defer k.Close()
				call(401, 5, 5)
			})
		})
	}
}

// Many callers with a 401 at once ask the source once.
func TestKey401OfMany(t *testing.T) {
	m := &mint{takes: time.Second, answer: func(n int) (string, time.Duration, error) { return fmt.Sprint("key ", n), 0, nil }}
	m.run(t, func(k *Key) {
		k.now()
		for range 50 {
			go k.answered("key 1", 401)
		}
		time.Sleep(time.Minute)
		if got := k.now(); got != "key 2" || len(m.asked) != 2 {
			t.Errorf("got %s after %d runs", got, len(m.asked))
		}
	})
}

// A reload changes the source, and the key before serves while the new one fails.
func TestKeyOfANewSource(t *testing.T) {
	m := &mint{answer: func(n int) (string, time.Duration, error) { return "the old key", 0, nil }}
	m.run(t, func(k *Key) {
		k.now()
		k = NewKey(func(context.Context) (string, time.Time, error) {
			return "", time.Time{}, errors.New("no such item")
		}, k)
		defer k.Close()
		synctest.Wait()
		if got, s := k.now(), k.State(time.Now()); got != "the old key" || s.Err == nil || !s.Serves || !s.Ends.IsZero() {
			t.Errorf("got %s, %+v", got, s)
		}
	})
}

// A caller that leaves does not wait for a source that hangs.
func TestKeyCallerLeaves(t *testing.T) {
	m := &mint{takes: time.Hour, answer: func(int) (string, time.Duration, error) { return "the key", 0, nil }}
	m.run(t, func(k *Key) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := k.get(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(m.began) != time.Second {
			t.Error(err)
		}
		time.Sleep(2 * time.Hour)
	})
}

// Without the key of its upstream a call is not sent, and costs nothing.
func TestWithoutItsKey(t *testing.T) {
	key := NewKey(func(context.Context) (string, time.Time, error) {
		return "", time.Time{}, errors.New("vault is sealed")
	}, nil)
	s := newScene(t, func(http.ResponseWriter, *http.Request) { t.Error("the call was sent") }, func(_ *Config, target *Target) { target.Key = key })
	const why = `there is no key of credential "youtube": vault is sealed`
	if a := s.get("youtube/v3/videos"); a.status != 503 || s.used() != 0 {
		t.Errorf("answered %d %s, %d units are debited", a.status, a.body, s.used())
	}
	if got := s.tokens.Pass(runToken).Refused; len(got) != 1 || got[0] != why {
		t.Errorf("refused of the pass: %q, want %s", got, why)
	}
}

// A key that the upstream refuses is asked for again.
func TestKeyThatTheUpstreamRefuses(t *testing.T) {
	var asked atomic.Int32
	key := NewKey(func(context.Context) (string, time.Time, error) {
		return fmt.Sprint("key-", asked.Add(1)), time.Time{}, nil
	}, nil)
	s := newScene(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, func(_ *Config, target *Target) { target.Key = key })
	s.get("youtube/v3/videos")
	key.Close()
	if asked.Load() != 2 {
		t.Error("its source is not asked again")
	}
}
