package boltledger

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// On a full disk the tables stay as they were, and the tail goes on in the room that it has;
// when that is used up, Room says so before anything is appended. With space again all goes
// on, and nothing was lost.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, "8m")
	path, ballast := filepath.Join(dir, "ledger.db"), filepath.Join(dir, "ballast")
	l := mustOpen(t, path)
	const size = 4000
	written, folded := 0, 0
	for range 3 {
		must(t, l.Append(credential, frameOf(written, size), true))
		written++
		fill(t, ballast)
		began := written
		for {
			if err := l.Room(credential, size); err != nil {
				if !errors.Is(err, quota.ErrUnavailable) || !strings.Contains(err.Error(), "free space on the disk") {
					t.Fatalf("no room: %v", err)
				}
				break
			}
			must(t, l.Append(credential, frameOf(written, size), written%10 == 0))
			if written++; written-began > 10_000 {
				t.Fatalf("the tail has room for %d frames on a disk of 8 MB: it overwrites those that the tables lack", written-began)
			}
			if written%50 == 0 {
				l.Cut()
				if err := l.Fold(manyEntries(folded)); !errors.Is(err, quota.ErrUnavailable) || !strings.Contains(err.Error(), "free space on the disk") {
					t.Fatalf("a Fold on a full disk: %v", err)
				}
				if got := counted(t, l); got != folded {
					t.Fatalf("%d entries after a Fold that failed, want %d", got, folded)
				}
				if warnings, err := l.Health(); err != nil || !strings.Contains(strings.Join(warnings, ""), "no space left") {
					t.Fatalf("while the tail has room, the file is said to be %v, with %q", err, warnings)
				}
			}
		}
		if written-began < 100 {
			t.Errorf("the tail went on for %d frames only", written-began)
		}
		if _, err := l.Health(); err == nil || !strings.Contains(err.Error(), "no space left") || !strings.Contains(err.Error(), "no room in the tail") {
			t.Errorf("on a full disk the file is said to be %v", err)
		}
		copied := mustOpen(t, copyLedger(t, path)) // as after a kill
		if got := len(frames(t, copied)); got != written-began+1 {
			t.Errorf("%d frames in the tail, want %d", got, written-began+1)
		}
		must(t, copied.Close())
		must(t, os.Remove(ballast))
		must(t, l.Room(credential, size))
		must(t, fold(l, put(folded, 10)))
		folded += 10
		if _, err := l.Health(); err != nil {
			t.Errorf("with space again the file is said to be %v", err)
		}
	}
	must(t, l.Close())
	l = mustOpen(t, path)
	defer l.Close()
	if got := counted(t, l); got != folded || len(frames(t, l)) != 0 {
		t.Errorf("after reopening %d entries, want %d, and %d frames", got, folded, len(frames(t, l)))
	}
}

// On a disk that is full from the start, the ledger opens, and says what it lacks.
func TestOpenOnAFullDisk(t *testing.T) {
	dir := smallDisk(t, "4m")
	path, ballast := filepath.Join(dir, "ledger.db"), filepath.Join(dir, "ballast")
	must(t, mustOpen(t, path).Close())
	fill(t, ballast)
	l := mustOpen(t, path)
	defer l.Close()
	if _, err := l.Health(); err == nil || !strings.Contains(err.Error(), "no room in the tail") {
		t.Errorf("before the first call, the file is said to be %v", err)
	}
	if err := l.Room(credential, 100); !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("room on a full disk: %v", err)
	}
	if err := l.Append(credential, frameOf(0, 10), false); !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("an Append on a full disk: %v", err)
	}
	must(t, os.Remove(ballast))
	if _, err := l.Health(); err != nil {
		t.Errorf("with space again, the file is said to be %v", err)
	}
	must(t, l.Room(credential, 100))
	must(t, l.Append(credential, frameOf(0, 10), false))
	copied := mustOpen(t, copyLedger(t, path))
	holds(t, copied, 10, 0, 1)
	must(t, copied.Close())
}

// What Room kept is there for whoever asked for it, whoever else writes, also behind a Cut.
func TestRoomIsKept(t *testing.T) {
	dir := smallDisk(t, "8m")
	path, ballast := filepath.Join(dir, "ledger.db"), filepath.Join(dir, "ballast")
	l := mustOpen(t, path)
	defer l.Close()
	const size, names = 4000, "abcdefghijklmnopqrst"
	must(t, l.Room(credential, 1))
	fill(t, ballast)
	for _, name := range names { // the second call takes the place of the first
		must(t, l.Room(string(name), size))
		must(t, l.Room(string(name), 10*size))
	}
	greedy := 0
	for ; l.Append("greedy", frameOf(0, size), false) == nil; greedy++ {
	}
	if greedy < 5 || greedy > 200 {
		t.Errorf("%d frames found room beside what is kept", greedy)
	}
	for i := range 10 {
		for _, name := range names {
			must(t, l.Append(string(name), frameOf(i, size), false))
		}
		if i == 5 {
			l.Cut()
		}
	}
}

// manyEntries is a change for which the tables must grow.
func manyEntries(from int) []slidinglog.TableChange {
	return []slidinglog.TableChange{put(from, 5000)}
}
