package boltledger

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"quotad/quota"
	"quotad/quota/seedtest"
)

// tailChildVariable has the test process append to the file that it names until it is killed.
const tailChildVariable = "QUOTAD_CHILD_TAIL"

const killSize = 300

// Whenever a process is killed: all frames that it was told of are there, in their order, and
// each is in the tail or in the tables.
func TestKilledWhileItAppends(t *testing.T) {
	if of := os.Getenv(tailChildVariable); of != "" {
		appendUntilKilled(t, of) // and leaves no directory
	}
	path := filepath.Join(t.TempDir(), "ledger.db")
	random := rand.New(rand.NewPCG(seedtest.Seed(t, 1), 0))
	told := 0
	for range 6 {
		killed(t, t.Name(), tailChildVariable, path, 1+random.IntN(3000), func(line string) {
			n, err := strconv.Atoi(line)
			if told = n; err != nil {
				t.Errorf("the child says %q", line)
			}
		})
		l := mustOpen(t, path)
		got := counted(t, l)
		for _, text := range frames(t, l) {
			if text != string(frameOf(got, killSize)) {
				t.Fatalf("a frame behind %d is %s", got, text)
			}
			got++
		}
		if got != told && got != told+1 { // one may be written and not told
			t.Fatalf("%d frames were told of, there are %d", told, got)
		}
		must(t, l.Close())
		told = got
	}
}

// appendUntilKilled appends, and folds meanwhile, as a host does.
func appendUntilKilled(t *testing.T, path string) {
	l, err := Open(Config{Path: path})
	must(t, err)
	folded := counted(t, l)
	n := folded + len(frames(t, l))
	var folding sync.WaitGroup
	for {
		from, to := folded, n
		l.Cut()
		folding.Go(func() { must(t, l.Fold(changesOf(from, to))) })
		for range 400 {
			must(t, l.Append(credential, frameOf(n, killSize), n%50 == 0))
			n++
			fmt.Println(n)
		}
		folding.Wait()
		folded = to
	}
}

// A machine that crashes may leave any part of the last frames: what is whole is there, and
// what is not is the end. Frames that are appended then are found behind it, and none of
// those that were lost.
func TestTornTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path)
	must(t, fold(l, put(0, 3)))
	ends := []int64{}
	for i := range 6 {
		appendFrames(t, l, 40, i, i+1, false)
		ends = append(ends, l.tail.segments[l.tail.active].end)
	}
	torn := tailPaths(copyLedger(t, path))[l.tail.active]
	content, err := os.ReadFile(torn)
	must(t, err)
	own := l.tail.folded
	must(t, l.Close())
	ledger := strings.TrimSuffix(strings.TrimSuffix(torn, ".tail0"), ".tail1")
	for at := ends[3]; at <= ends[5]; at++ {
		for what, left := range map[string][]byte{
			"cut":     content[:at],
			"zeroed":  append(bytes.Clone(content[:at]), make([]byte, int64(len(content))-at)...),
			"flipped": flip(content, at),
		} {
			must(t, os.WriteFile(torn, left, 0o600))
			whole := 4
			if at >= ends[4] {
				whole++
			}
			if at >= ends[5] {
				whole++
			}
			_, unread, err := readTail(ledger, own)
			must(t, err)
			if got := len(unread); got != whole {
				t.Fatalf("%s at %d of %v: %d frames, want %d", what, at, ends, got, whole)
			}
			if (at-ends[3])%25 > 0 {
				continue
			}
			l := mustOpen(t, copyLedger(t, ledger))
			holds(t, l, 40, 0, whole)
			appendFrames(t, l, 40, whole, 5, false) // the very frame that was lost, before the last one
			again := mustOpen(t, copyLedger(t, l.db.Path()))
			holds(t, again, 40, 0, max(whole, 5))
			must(t, errors.Join(again.Close(), l.Close()))
		}
	}
}

func flip(content []byte, at int64) []byte {
	flipped := bytes.Clone(content)
	flipped[at] ^= 1 << (at % 8)
	return flipped
}

// Whichever bit of a frame that had been synced is flipped: the start notices.
func TestFlippedBitsOfSyncedFrames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path)
	appendFrames(t, l, 20, 0, 3, true)
	ledger := copyLedger(t, path)
	torn := tailPaths(ledger)[l.tail.active]
	end := l.tail.segments[l.tail.active].end
	must(t, l.Close())
	content, err := os.ReadFile(torn)
	must(t, err)
	for at := range end {
		must(t, os.WriteFile(torn, flip(content, at), 0o600))
		if l, err := Open(Config{Path: ledger}); err == nil || !strings.Contains(err.Error(), "lacks the end of its tail") {
			t.Errorf("with byte %d of %d flipped: %v, %v", at, end, l, err)
		}
	}
}

// Killed at each moment of a second: what was appended is in the tables or in the tail, once.
func TestCrashAroundAFold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path)
	defer l.Close()
	folded, n := 0, 0
	survives := func(when string) {
		t.Helper()
		killed := mustOpen(t, copyLedger(t, path))
		defer killed.Close()
		if got := counted(t, killed); got != folded {
			t.Fatalf("%s: %d entries, want %d", when, got, folded)
		}
		holds(t, killed, 10, folded, n)
		// It goes on where it was, and is killed again.
		must(t, killed.Append(credential, frameOf(n, 10), false))
		again := mustOpen(t, copyLedger(t, killed.db.Path()))
		holds(t, again, 10, folded, n+1)
		must(t, fold(again, changesOf(folded, n+1)...))
		must(t, again.Append(credential, frameOf(n+1, 10), true))
		last := mustOpen(t, copyLedger(t, again.db.Path()))
		holds(t, last, 10, n+1, n+2)
		must(t, errors.Join(again.Close(), last.Close()))
	}
	for round := range 6 {
		appendFrames(t, l, 10, n, n+3, round%2 == 0)
		n += 3
		survives("before the Cut")
		l.Cut()
		upTo := n
		survives("between Cut and Fold")
		appendFrames(t, l, 10, n, n+2, round == 3)
		n += 2
		survives("with frames behind the Cut")
		if round == 2 { // a Fold that fails, and one that has both
			if err := l.Fold(unwritable()); !errors.Is(err, quota.ErrUnavailable) {
				t.Fatalf("got %v", err)
			}
			survives("behind a Fold that failed")
			l.Cut()
			upTo = n
			survives("with a second Cut")
			appendFrames(t, l, 10, n, n+2, false)
			n += 2
			survives("with frames behind the second Cut")
		}
		must(t, l.Fold(changesOf(folded, upTo)))
		folded = upTo
		survives("behind the Fold")
	}
}

// A segment that is lost ends the tail: what stands in the other one is not taken without it.
func TestNoFrameIsSkipped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path)
	defer l.Close()
	appendFrames(t, l, 10, 0, 3, false)
	torn := l.tail.active
	end := l.tail.segments[torn].end
	l.Cut()
	appendFrames(t, l, 10, 3, 6, false)
	ledger := copyLedger(t, path)
	content, err := os.ReadFile(tailPaths(ledger)[torn])
	must(t, err)
	must(t, os.WriteFile(tailPaths(ledger)[torn], flip(content, end-1), 0o600))
	l = mustOpen(t, ledger)
	defer l.Close()
	holds(t, l, 10, 0, 2)
}

// What follows a mark follows its frame, not another one of the same number.
func TestMarksOfAnotherPast(t *testing.T) {
	past := mark{4, 77}
	content, first := appendFrame(nil, past, credential, []byte("a"))
	content, last := appendFrame(content, first, credential, []byte("b"))
	for m, want := range map[mark]int{past: 2, first: 1, last: 0, {4, 1}: 0, {5, 1}: 0, {3, 77}: 0} {
		if got := len(readSegment(content, m)); got != want {
			t.Errorf("%d frames behind %v, want %d", got, m, want)
		}
	}
}

// Callers who come while a sync is under way share the next one; what a Cut left behind is
// synced with what follows, as long as no Fold has it.
func TestGroupSync(t *testing.T) {
	l := mustOpen(t, filepath.Join(t.TempDir(), "ledger.db"))
	defer l.Close()
	var synced []*os.File // written by one at a time
	entered, goOn := make(chan struct{}), make(chan struct{})
	l.tail.fdatasync = func(f *os.File) error {
		synced = append(synced, f)
		entered <- struct{}{}
		<-goOn
		return nil
	}
	const callers = 20
	var all sync.WaitGroup
	all.Go(func() { must(t, l.Append(credential, frameOf(0, 10), true)) })
	<-entered
	for i := range callers {
		must(t, l.Append(credential, frameOf(1+i, 10), false)) // written before anybody syncs again
		all.Go(func() {
			_, err := l.tail.sync(uint64(2 + i))
			must(t, err)
		})
	}
	close(goOn)
	<-entered
	all.Wait()
	if len(synced) != 2 {
		t.Errorf("%d syncs for %d callers, want 2", len(synced), callers+1)
	}
	l.tail.fdatasync = func(f *os.File) error {
		synced = append(synced, f)
		return nil
	}
	synced = nil
	appendFrames(t, l, 10, 30, 31, false)
	first := l.tail.segments[l.tail.active].file
	l.Cut()
	appendFrames(t, l, 10, 31, 32, true)
	if len(synced) != 2 || synced[0] != first || synced[1] == first {
		t.Errorf("behind a Cut %d files were synced, want the earlier one first, and both", len(synced))
	}
	appendFrames(t, l, 10, 32, 33, false)
	must(t, l.Fold(nil))
	l.Cut()
	must(t, l.Fold(nil))
	synced = nil
	appendFrames(t, l, 10, 33, 34, true)
	if len(synced) != 1 {
		t.Errorf("behind a Fold %d files were synced, want 1", len(synced))
	}
}

// Without sync nothing is synced, and a position says nothing that a crash could deny.
func TestUnsynced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := Open(Config{Path: path, Unsynced: true})
	must(t, err)
	l.tail.fdatasync = func(*os.File) error { return errors.New("synced") }
	appendFrames(t, l, 10, 0, 3, true)
	must(t, l.Close())
	must(t, errors.Join(os.Remove(path+".tail0"), os.Remove(path+".tail1")))
	l = mustOpen(t, path)
	defer l.Close()
	holds(t, l, 10, 0, 0)
}

// When a sync fails nobody knows what is on disk: that is said, and nothing is written any
// more until a restart reads what there is.
func TestSyncFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path)
	defer l.Close()
	appendFrames(t, l, 10, 0, 1, true)
	l.tail.fdatasync = func(*os.File) error { return errors.New("input/output error") }
	if err := l.Append(credential, frameOf(1, 10), true); !errors.Is(err, quota.ErrOutcomeUnknown) {
		t.Errorf("got %v, want that nobody knows", err)
	}
	if err := l.Append(credential, frameOf(2, 10), false); !errors.Is(err, quota.ErrUnavailable) || !strings.Contains(err.Error(), "restart quotad") {
		t.Errorf("got %v, want that it can be written no more", err)
	}
	if err := l.Room(credential, 10); !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("there is room: %v", err)
	}
	if _, err := l.Health(); err == nil || !strings.Contains(err.Error(), "restart quotad") {
		t.Errorf("got %v, want it said", err)
	}
}
