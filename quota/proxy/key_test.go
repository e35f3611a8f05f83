package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
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

func (m *mint) source(context.Context) (string, time.Time, error) {
	m.asked = append(m.asked, time.Since(m.began).String())
	time.Sleep(m.takes) // of the bubble
	key, life, err := m.answer(len(m.asked))
	if life == 0 {
		return key, time.Time{}, err
	}
	return key, time.Now().Add(life), err
}

// run runs a key in a bubble of its own, and returns when the source was asked.
func (m *mint) run(t *testing.T, test func(k *Key)) string {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m.began = time.Now()
		k := NewKey(m.source, nil)
		test(k)
		k.Close()
	})
	return strings.Join(m.asked, " ")
}

func (k *Key) now() string {
	key, err := k.get(context.Background())
	if err != nil {
		return "no key: " + err.Error()
	}
	return key
}

// A key of an hour is replaced by the first call of its last five minutes. A call waits if there is none that serves.
func TestKeyIsRenewedBeforeItsEnd(t *testing.T) {
	m := &mint{takes: 2 * time.Second, answer: func(n int) (string, time.Duration, error) { return fmt.Sprint("key ", n), time.Hour, nil }}
	asked := m.run(t, func(k *Key) {
		for _, step := range []struct {
			after time.Duration
			want  string
		}{{0, "key 1"}, {54 * time.Minute, "key 1"}, {2 * time.Minute, "key 1"}, {3 * time.Second, "key 2"}, {2 * time.Hour, "key 3"}} {
			time.Sleep(step.after)
			if got := k.now(); got != step.want {
				t.Errorf("after %s: got %s, want %s", time.Since(m.began), got, step.want)
			}
		}
	})
	if asked != "0s 56m2s 2h56m5s" {
		t.Errorf("asked at %s", asked)
	}
	m = &mint{answer: func(int) (string, time.Duration, error) { return "short", 4 * time.Minute, nil }}
	asked = m.run(t, func(k *Key) { // in its last quarter
		for range 5 {
			k.now()
			time.Sleep(50 * time.Second)
		}
	})
	if asked != "0s 3m20s" {
		t.Errorf("a short key: asked at %s", asked)
	}
}

// While the source fails, the key before serves to its end, and not longer.
func TestOldKeyServesToItsEnd(t *testing.T) {
	m := &mint{answer: func(n int) (string, time.Duration, error) {
		switch {
		case n == 2:
			return "key 2", -time.Second, nil
		case n > 2 && n < 6:
			return "", 0, errors.New("vault is sealed, key 1 too")
		}
		return fmt.Sprint("key ", n), time.Hour, nil
	}}
	asked := m.run(t, func(k *Key) {
		says := func(want, why string, failed time.Duration) {
			t.Helper()
			got := k.now()
			synctest.Wait()
			s := k.State(time.Now())
			if got != want || s.Err != nil != (why != "") || why != "" && !strings.HasPrefix(s.Err.Error(), why) || failed > 0 && time.Since(s.Since) != failed {
				t.Errorf("after %s: got %s, %+v", time.Since(m.began), got, s)
			}
		}
		says("key 1", "", 0)
		time.Sleep(59 * time.Minute)
		says("key 1", "it printed a key that is over: it ended at 2000-01-01T00:58:59Z", 0)
		time.Sleep(retryAfter)
		says("key 1", "vault is sealed, ***** too", retryAfter)
		time.Sleep(retryAfter)
		says("no key: vault is sealed, ***** too", "vault is sealed, ***** too", time.Minute)
		says("no key: vault is sealed, ***** too", "vault is sealed, ***** too", 0)
		time.Sleep(retryAfter)
		says("no key: vault is sealed, ***** too", "vault is sealed, ***** too", 0)
		time.Sleep(retryAfter)
		says("key 6", "", 0)
	})
	if want := "0s 59m0s 59m30s 1h0m0s 1h0m30s 1h1m0s"; asked != want {
		t.Errorf("asked at %s", asked)
	}
}

// A source is asked once after a 401, also one of many calls. A key that stays refused is no loop, whatever the source
// prints; a good answer in between is the end of it.
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
					is := k.now()
					for range times {
						go k.answered(is, status)
					}
					time.Sleep(time.Minute)
					synctest.Wait()
					if len(m.asked) != want {
						t.Errorf("asked %d times, want %d", len(m.asked), want)
					}
				}
				for _, step := range [][3]int{
					{200, 3, 1}, {403, 3, 1}, {401, 50, 2}, {401, 1, 2}, {500, 2, 2}, {404, 1, 2}, {401, 2, 2}, {200, 1, 2}, {401, 5, 3},
				} {
					call(step[0], step[1], step[2])
				}
				k.answered("a key before", 200)
				call(401, 5, 3)
				k = NewKey(m.source, k) // a reload
				defer k.Close()
				call(200, 1, 4)
				call(401, 5, 5)
			})
		})
	}
}

// After a reload the key before serves while the new source fails. A caller that leaves does not wait for one that hangs.
func TestKeyOfANewSource(t *testing.T) {
	m := &mint{takes: time.Hour, answer: func(int) (string, time.Duration, error) { return "the old key", time.Hour, nil }}
	m.run(t, func(k *Key) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := k.get(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(m.began) != time.Second {
			t.Error(err)
		}
		k.now()
		k = NewKey(func(context.Context) (string, time.Time, error) { return "", time.Time{}, errors.New("no such item") }, k)
		defer k.Close()
		synctest.Wait()
		if got, s := k.now(), k.State(time.Now()); got != "the old key" || s.Err == nil || !s.Serves || time.Until(s.Ends) != time.Hour {
			t.Errorf("got %s, %+v", got, s)
		}
		time.Sleep(time.Hour)
		if got := k.now(); got != "no key: no such item" {
			t.Errorf("after its end: got %s", got)
		}
	})
}

// Without the key of its upstream a call is not sent, and costs nothing. A key that the upstream refuses is asked for again.
func TestKeyOfASource(t *testing.T) {
	asked := 0
	key := NewKey(func(context.Context) (string, time.Time, error) {
		if asked++; asked == 1 {
			return "", time.Time{}, errors.New("vault is sealed")
		}
		return fmt.Sprint("key-", asked), time.Time{}, nil
	}, nil)
	key.running.Wait()
	s := newScene(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, func(_ *Config, target *Target) { target.Key = key })
	const why = `there is no key of credential "youtube": vault is sealed`
	if a := s.get("youtube/v3/videos"); a.status != 503 || s.used() != 0 {
		t.Errorf("answered %d %s, %d units are debited", a.status, a.body, s.used())
	}
	if got := s.tokens.Pass(runToken).Refused; len(got) != 1 || got[0] != why {
		t.Errorf("refused of the pass: %q, want %s", got, why)
	}
	key.due = time.Now()
	if a := s.get("youtube/v3/videos"); a.status != 401 {
		t.Errorf("answered %d %s", a.status, a.body)
	}
	same := *s.proxy.Target("youtube")
	if s.proxy.SetTargets([]*Target{&same}); key.ctx.Err() != nil {
		t.Error("a reload that keeps the key ends it")
	}
	if s.proxy.Shutdown(t.Context()); key.ctx.Err() == nil || asked != 3 {
		t.Errorf("its source is asked %d times, want 3, and then no more: %v", asked, key.ctx.Err())
	}
}
