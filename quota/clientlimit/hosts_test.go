package clientlimit_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
)

// hashed gives each subject three units a minute, and keeps it as a hash.
func hashed(algorithm clientlimit.Algorithm) *clientlimit.Clients {
	return &clientlimit.Clients{Name: "public", Algorithm: algorithm, Limits: []quota.Limit{{Name: "default", Units: 3, Window: quota.Sliding(time.Minute)}}}
}

// host returns another host on the store of a scene.
func (s *scene) host(t *testing.T, name string, all ...*clientlimit.Clients) *clientlimit.Service {
	t.Helper()
	h := clientlimit.NewService(clientlimit.Config{Deadline: time.Second, Host: clientlimit.Host{Label: name, ID: func() string { return name }}})
	if err := h.SetClients(s.ledger, all); err != nil {
		t.Fatal(err)
	}
	return h
}

func kept(t *testing.T, h *clientlimit.Service, subject string) (used quota.Units, key clientlimit.Key) {
	t.Helper()
	u, key, _, err := h.Usage(t.Context(), "public", subject)
	if err != nil {
		t.Fatal(err)
	}
	return u.Limits[0].Used, key
}

// shared returns what hosts share, and replaces it by next, if there is one.
func (s *scene) shared(t *testing.T, next []byte) []byte {
	t.Helper()
	read := &clientlimit.Swap{}
	s.ledger.Swap(t.Context(), []*clientlimit.Swap{read})
	if next != nil {
		s.ledger.Swap(t.Context(), []*clientlimit.Swap{{Writes: true, Read: read.Found, Next: next, EndsMs: s.clock.Now().Add(time.Hour).UnixMilli()}})
	}
	return read.Found
}

// A new day has other keys. What was used before it counts, on a host too that has not seen it yet.
func TestADayChanges(t *testing.T) {
	for _, algorithm := range []clientlimit.Algorithm{clientlimit.Log, clientlimit.Counter} {
		s := newScene(t, hashed(algorithm))
		s.clock.Set(s.clock.Now().Truncate(24 * time.Hour).Add(24*time.Hour - 10*time.Second))
		for _, subject := range []string{"alice", "bob", "carol"} {
			s.ask(t, "public", subject, "", 2)
		}
		_, before := kept(t, s.Service, "alice")
		s.clock.Add(20 * time.Second)
		if d := s.ask(t, "public", "alice", "", 2); !d.Denied() {
			t.Errorf("%s: got %+v, want a denial: 2 of 3 units were used yesterday", algorithm, d)
		}
		if d := s.ask(t, "public", "alice", "", 1); !d.Granted() {
			t.Errorf("%s: got %+v, want a grant", algorithm, d)
		}
		if used, key := kept(t, s.Service, "alice"); used != 3 || key == before || key.Hash() == "" {
			t.Errorf("%s: %d units are used under the key %x, and yesterday's was %x", algorithm, used, key, before)
		}
		s.clock.Add(24 * time.Hour)
		if used, _ := kept(t, s.Service, "alice"); used != 0 {
			t.Errorf("%s: %d units are used a day later", algorithm, used)
		}
		s.clock.Add(24*time.Hour - 15*time.Second)
		s.ask(t, "public", "dave", "", 3)
		s.clock.Add(10 * time.Second)
		if refused, err := s.Reset(t.Context(), "public", "dave"); err != nil || !refused.Granted() {
			t.Fatal(refused, err)
		}
		if used, _ := kept(t, s.Service, "dave"); used != 0 {
			t.Errorf("%s: %d units are used after a reset", algorithm, used)
		}
	}
}

// What hosts share has no secret of more than a day ago.
func TestOldSecretsAreOverwritten(t *testing.T) {
	s := newScene(t, hashed(clientlimit.Log))
	var secrets []string
	for range 4 {
		if err := s.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		var value struct {
			Salts map[string]struct{ Before string }
		}
		if err := json.Unmarshal(s.shared(t, nil), &value); err != nil || len(value.Salts) != 1 {
			t.Fatalf("%+v, %v", value, err)
		}
		for _, salt := range value.Salts {
			if slices.Contains(secrets, salt.Before) {
				t.Errorf("the secret of %d days ago is there", len(secrets))
			}
			secrets = append(secrets, salt.Before)
		}
		s.clock.Add(24 * time.Hour)
	}
}

// A host that finds the secrets gone writes its own. If another host was the first, it uses those.
func TestLostSecrets(t *testing.T) {
	s := newScene(t, hashed(clientlimit.Log))
	other := s.host(t, "b", hashed(clientlimit.Log))
	_, first := kept(t, s.Service, "alice")
	if _, key := kept(t, other, "alice"); key != first {
		t.Fatal("two hosts have two keys for one subject")
	}
	value := s.shared(t, []byte("damaged"))
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, key := kept(t, s.host(t, "c", hashed(clientlimit.Log)), "alice"); key != first {
		t.Error("the secret that a host still had is not there again")
	}
	stranger := newScene(t, hashed(clientlimit.Log))
	_, second := kept(t, stranger.Service, "alice")
	s.shared(t, stranger.shared(t, nil))
	if err := other.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, key := kept(t, other, "alice"); key != second || second == first {
		t.Error("a host does not use the secret that is there")
	}
	s.shared(t, []byte(`{"Version":1}`))
	if err := s.host(t, "e", hashed(clientlimit.Log)).Refresh(t.Context()); err == nil {
		t.Error("a host uses what another version wrote")
	}
	s.shared(t, value)
	if _, key := kept(t, s.host(t, "d", hashed(clientlimit.Log)), "alice"); key != first {
		t.Error("a new host does not use the secret that is there")
	}
}

// Secrets outlive the host that wrote them: a subject keeps its key.
func TestSecretsOfAHostThatIsGone(t *testing.T) {
	s := newScene(t, hashed(clientlimit.Log))
	_, first := kept(t, s.Service, "alice")
	s.clock.Add(2 * time.Hour)
	if _, key := kept(t, s.host(t, "b", hashed(clientlimit.Log)), "alice"); key != first {
		t.Error("a host that came later has another key for a subject")
	}
}

// Hosts whose windows differ count apart.
func TestHostsOfOtherWindows(t *testing.T) {
	longer := hashed(clientlimit.Log)
	longer.Limits = []quota.Limit{{Name: "default", Units: 3, Window: quota.Sliding(time.Hour)}}
	s := newScene(t, hashed(clientlimit.Log))
	other := s.host(t, "b", longer)
	for _, h := range []*clientlimit.Service{s.Service, other} {
		if d := h.Acquire(context.Background(), "public", clientlimit.Request{Subject: "alice", Count: 3})[0]; !d.Granted() {
			t.Errorf("got %+v, want a grant", d)
		}
	}
}

// Hosts that count the same clients otherwise say so, until that is mended or the other is gone.
func TestHostsCountClientsOtherwise(t *testing.T) {
	longer := hashed(clientlimit.Counter)
	longer.Limits = []quota.Limit{{Name: "default", Units: 90, Window: quota.Sliding(time.Hour)}}
	s := newScene(t)
	a, b := s.host(t, "a", hashed(clientlimit.Counter)), s.host(t, "b", longer, &clientlimit.Clients{Name: "other", Algorithm: clientlimit.Log, Limits: longer.Limits})
	look := func(h *clientlimit.Service, want ...string) {
		t.Helper()
		if err := h.Refresh(t.Context()); err != nil || !slices.Equal(h.Differences(), want) {
			t.Errorf("got %q, %v, want %q", h.Differences(), err, want)
		}
	}
	set := func(c *clientlimit.Clients) {
		t.Helper()
		if err := a.SetClients(s.ledger, []*clientlimit.Clients{c}); err != nil {
			t.Fatal(err)
		}
	}
	look(a)
	ofA := "clients public: host a shares the ledger and counts differently: limit default: 3 units in any 1m, here 90 units in any 1h"
	look(b, ofA)
	ofB := "clients public: host b shares the ledger and counts differently: limit default: 90 units in any 1h, here 3 units in any 1m"
	look(a, ofB)
	set(longer)
	look(a)
	look(b)
	set(hashed(clientlimit.Counter))
	look(a, ofB)
	look(b, ofA)
	s.clock.Add(time.Minute) // a is gone
	look(b)
}
