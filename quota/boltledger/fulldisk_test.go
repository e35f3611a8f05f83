package boltledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"quotad/quota"
)

func youtube() *quota.Credential {
	return &quota.Credential{
		Name:       "youtube",
		Limits:     []quota.Limit{{Name: "daily", Units: 1_000_000, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"videos.list": {Every: 1}},
	}
}

// grant asks for one unit under a request id.
func grant(l *Ledger, id string) (quota.Decision, error) {
	ask := quota.Ask{
		Request: quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1, RequestID: id},
		Charges: []quota.Charge{{Limit: "daily", Units: 1}},
	}
	decisions, err := l.Acquire(context.Background(), youtube(), []quota.Ask{ask})
	if err != nil {
		return quota.Decision{}, err
	}
	return decisions[0], nil
}

func used(t *testing.T, l *Ledger) quota.Units {
	t.Helper()
	u, err := l.Usage(context.Background(), youtube())
	if err != nil {
		t.Fatal(err)
	}
	return u.Limits[0].Used
}

func mustOpen(t *testing.T, path string) *Ledger {
	t.Helper()
	l, err := Open(Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// smallDisk is a file system of a megabyte.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("cannot unmount: %v", err)
		}
	})
	return dir
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for {
		if _, err := file.WriteString(strings.Repeat("x", 4096)); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// On a full disk nothing is granted and nothing forgotten; with room again all
// goes on.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t)
	path, ballast := filepath.Join(dir, "ledger.db"), filepath.Join(dir, "ballast")
	l := mustOpen(t, path)
	granted := 0
	for range 3 {
		fill(t, ballast)
		granted += grantUntilFull(t, l, granted)
		if got := used(t, l); got != quota.Units(granted) {
			t.Fatalf("on a full disk %d units are used, %d were granted", got, granted)
		}
		if h := l.Health(context.Background()); h.Reachable || !strings.Contains(h.State, "no space left") {
			t.Errorf("on a full disk the ledger is said to be %+v", h)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		// The one that failed is asked for again, as its caller does.
		if d, err := grant(l, fmt.Sprint("id-", granted)); err != nil || !d.Granted() {
			t.Fatalf("with room again: %+v, %v", d, err)
		}
		granted++
		if h := l.Health(context.Background()); !h.Reachable || h.State != "ok" {
			t.Errorf("with room again the ledger is said to be %+v", h)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, path)
	defer l.Close()
	if got := used(t, l); got != quota.Units(granted) {
		t.Errorf("after reopening %d units are used, %d were granted", got, granted)
	}
	if granted < 10 {
		t.Errorf("only %d grants fit: the test shows nothing", granted)
	}
}

// grantUntilFull grants until that fails, a few times over.
func grantUntilFull(t *testing.T, l *Ledger, from int) (granted int) {
	t.Helper()
	const most = 100_000
	for failed := 0; failed < 5; {
		if from+granted == most {
			t.Fatalf("the disk does not become full with %d grants", most)
		}
		d, err := grant(l, fmt.Sprint("id-", from+granted))
		switch {
		case errors.Is(err, quota.ErrUnavailable) || errors.Is(err, quota.ErrOutcomeUnknown):
			failed++
		case err != nil || !d.Granted():
			t.Fatalf("neither granted nor failed for want of the ledger: %+v, %v", d, err)
		case d.Replayed && failed == 0:
			t.Fatalf("grant %s is told to be an old one", d.GrantID)
		default:
			granted++
		}
	}
	return granted
}
