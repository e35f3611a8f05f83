package boltledger

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/seedtest"
)

// public are clients with six units a minute.
func public(algorithm clientlimit.Algorithm) *clientlimit.Clients {
	return &clientlimit.Clients{Name: "public", Algorithm: algorithm, Limits: []quota.Limit{{Name: "minute", Units: 6, Window: quota.Sliding(time.Minute)}}}
}

// take asks for one unit of each subject and returns how many were granted.
func take(t testing.TB, l *Clients, c *clientlimit.Clients, subjects ...clientlimit.Key) (granted int) {
	t.Helper()
	asks := make([]clientlimit.Ask, len(subjects))
	for i, subject := range subjects {
		asks[i] = clientlimit.Ask{Subject: subject, Units: 1}
	}
	for _, d := range (clientlimit.Decider{Store: l}).Decide(t.Context(), c, asks) {
		if d.Err != nil {
			t.Fatal(d.Err)
		}
		if d.Granted() {
			granted++
		}
	}
	return granted
}

// someSubjects are the keys of n subjects, as those of addresses are.
func someSubjects(from, n int) []clientlimit.Key {
	keys := make([]clientlimit.Key, n)
	for i := range keys {
		keys[i] = public(clientlimit.Log).Ask(clientlimit.Salt{}, fmt.Sprintf("10.%d.%d.%d", (from+i)>>16, (from+i)>>8&255, (from+i)&255), 1).Subject
	}
	return keys
}

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// Whatever became of the file: it is opened, or set aside as it is and another one begun.
// What was not damaged is as it was.
func TestDamagedClientsAreSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients.db")
	l := openClients(t, path, noon)
	subjects := someSubjects(0, 500)
	for range 3 {
		take(t, l, public(clientlimit.Counter), subjects...)
		take(t, l, public(clientlimit.Log), subjects...)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewSource(int64(seedtest.Seed(t, 20261121))))
	page := func() []byte { return content[random.Intn(len(content)/pageSize)*pageSize:][:pageSize] }
	damages := map[string]func() []byte{
		"cut":     func() []byte { return content[:random.Intn(len(content))] },
		"cleared": func() []byte { return withPage(content, page(), func(p []byte) { clear(p) }) },
		"noise":   func() []byte { return withPage(content, page(), func(p []byte) { random.Read(p) }) },
		"header":  func() []byte { return withPage(content, page(), func(p []byte) { random.Read(p[:16]) }) },
		"letter":  func() []byte { return bytes.Repeat([]byte("dear sir, "), 10_000) },
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			aside := 0
			for range 15 {
				if opensDamaged(t, damage()) {
					aside++
				}
			}
			if aside < 3 {
				t.Errorf("%d of 15 were set aside", aside)
			}
		})
	}
}

// withPage returns content with one of its pages changed.
func withPage(content, page []byte, change func([]byte)) []byte {
	was := bytes.Clone(page)
	change(page)
	now := bytes.Clone(content)
	copy(page, was)
	return now
}

// opensDamaged opens a file of that content and uses it, and tells whether it was set aside.
func opensDamaged(t *testing.T, content []byte) bool {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clients.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	aside := 0
	l, err := OpenClients(path, func(where string, why error) {
		aside++
		if now, err := os.ReadFile(where); why == nil || where != path+".damaged" || err != nil || aside == 1 && !bytes.Equal(now, content) {
			t.Errorf("set aside as %s for %v: it has %d bytes of %d, %v", where, why, len(now), len(content), err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// Nobody is in the file for another time than this.
	if n := take(t, l, public(clientlimit.Counter), someSubjects(100_000, 100)...); n != 100 {
		t.Errorf("%d of 100 were granted", n)
	}
	head := &clientlimit.Swap{}
	if l.Swap(t.Context(), []*clientlimit.Swap{head}); head.Err != nil {
		t.Error(head.Err)
	}
	return aside > 0
}

// A file that loses its end while it is open is set aside, and who asks is decided.
func TestClientsDamagedWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients.db")
	aside := 0
	l := openClients(t, path, noon)
	defer l.Close()
	l.onSetAside = func(string, error) { aside++ }
	take(t, l, public(clientlimit.Counter), someSubjects(0, 5000)...)
	if err := os.Truncate(path, 2*pageSize); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		if n := take(t, l, public(clientlimit.Counter), "=alice"); n != 1 {
			t.Fatal("not granted")
		}
	}
	if n := take(t, l, public(clientlimit.Counter), "=alice"); n != 0 || aside != 1 {
		t.Errorf("%d granted of the seventh, set aside %d times", n, aside)
	}
}

func TestClientsAreOpenedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients.db")
	l := openClients(t, path, noon)
	defer l.Close()
	if _, err := OpenClients(path, nil); err == nil {
		t.Error("it was opened twice")
	}
	if n := take(t, l, public(clientlimit.Counter), "=alice"); n != 1 {
		t.Error("not granted")
	}
}

// On a full disk nothing is granted that is not in the file; with room again all goes on.
func TestClientsOnAFullDisk(t *testing.T) {
	dir := smallDisk(t, "1m")
	path, ballast := filepath.Join(dir, "clients.db"), filepath.Join(dir, "ballast")
	l := openClients(t, path, noon)
	c := public(clientlimit.Log)
	c.Limits[0].Units = 1
	granted := 0
	fill(t, ballast)
	for failed := 0; failed < 3; {
		d := clientlimit.Decider{Store: l}.Decide(t.Context(), c, []clientlimit.Ask{{Subject: someSubjects(granted, 1)[0], Units: 1}})
		switch err := d[0].Err; {
		case errors.Is(err, quota.ErrUnavailable):
			failed++
			l.failed = time.Time{} // its pause is over
		case err != nil:
			t.Fatal(err)
		default:
			granted++
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if n := take(t, l, c, someSubjects(granted, 10)...); n != 10 {
		t.Errorf("with room again %d of 10 were granted", n)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openClients(t, path, noon)
	defer l.Close()
	if n := take(t, l, c, someSubjects(0, granted+10)...); n != 0 || granted < 10 {
		t.Errorf("of %d grants %d were forgotten", granted+10, n)
	}
}
