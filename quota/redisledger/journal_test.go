package redisledger

import (
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

func mustOpenJournal(t *testing.T, dir string) *journal {
	t.Helper()
	j, err := openJournal(dir, 48*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.close() })
	return j
}

// writeSegment writes lines behind the version, as an earlier process left them.
func writeSegment(t *testing.T, dir string, lines string) {
	t.Helper()
	path := filepath.Join(dir, fmt.Sprintf("journal-%020d.log", time.Now().UnixNano()))
	if err := os.WriteFile(path, []byte(journalVersion+"\n"+lines), 0o600); err != nil {
		t.Fatal(err)
	}
}

func entriesOf(t *testing.T, j *journal, since time.Time) (ids []string) {
	t.Helper()
	err := j.entries("one", since, func(id, _ string) error {
		ids = append(ids, id)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// A disk may leave a page of zeros, and a crash half a line: the rest is read.
func TestUnreadableLinesKeepNobodyFromStarting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now().UnixMilli()
	line := func(seq int) string { return fmt.Sprintf("e one epoch@1 %d-%d g,daily=1 list 1 @1 - -\n", now, seq) }
	writeSegment(t, dir, line(0)+strings.Repeat("\x00", 4096)+"\n"+line(1)+"e one epo")
	j := mustOpenJournal(t, dir)
	if got := entriesOf(t, j, time.Time{}); len(got) != 2 {
		t.Errorf("got the entries %q, want both", got)
	}
	if got := j.unreadable(); got != 1 {
		t.Errorf("%d lines are said to be unreadable, want 1", got)
	}
	if m, _ := j.known("one"); m.newest != (quota.ID{Ms: now, Seq: 1}) {
		t.Errorf("got %+v, want the newest entry known", m)
	}
	if err := j.log("one", "epoch@1", logLine{quota.ID{Ms: now, Seq: 2}.String(), "g,daily=1 list 1 @1 - -"}); err != nil {
		t.Fatal(err)
	}
	if got := entriesOf(t, j, time.Time{}); len(got) != 3 {
		t.Errorf("got the entries %q, want what is written behind, too", got)
	}
}

// What was used is known to a start behind a segment that has ended: nothing beyond what is left
// is granted offline then.
func TestEndedSegmentTellsWhatIsUsed(t *testing.T) {
	t.Parallel()
	j := mustOpenJournal(t, t.TempDir())
	log := func(ms int64, text string) {
		t.Helper()
		if err := j.log("one", "epoch@1", logLine{quota.ID{Ms: ms}.String(), text}); err != nil {
			t.Fatal(err)
		}
	}
	const grant = "g,daily=20 list 1 @1 - -"
	if err := j.mark(mark{credential: "one", position: position{epoch: "epoch@1", newest: quota.ID{Ms: 5}}, used: map[string]quota.Units{"daily": 7}}); err != nil {
		t.Fatal(err)
	}
	log(6, grant)
	log(6, grant) // once more, beside its settlement
	log(7, "s 6-0 30 @1 - ,daily=20 ,daily=30;6-0 - - 30 -")
	if _, err := j.next(); err != nil {
		t.Fatal(err)
	}
	log(8, grant)
	for _, j := range []*journal{j, mustOpenJournal(t, j.dir)} {
		if m, _ := j.known("one"); m.used["daily"] != 57 {
			t.Errorf("%d units are known to be used, want 57", m.used["daily"])
		}
	}
}

// What is known of a log is written without waiting for who writes entries: it may be older
// than the newest one.
func TestMarkDoesNotForgetAnEntry(t *testing.T) {
	t.Parallel()
	j := mustOpenJournal(t, t.TempDir())
	older := mark{credential: "one", position: position{epoch: "epoch@1", newest: quota.ID{Ms: 5}}}
	newer := quota.ID{Ms: 6}
	if err := j.log("one", "epoch@1", logLine{newer.String(), "g,daily=1 list 1 @1 - -"}); err != nil {
		t.Fatal(err)
	}
	if err := j.mark(older); err != nil {
		t.Fatal(err)
	}
	for _, j := range []*journal{j, mustOpenJournal(t, j.dir)} {
		if m, _ := j.known("one"); m.newest != newer {
			t.Errorf("got %v, want %v", m.newest, newer)
		}
	}
}

func TestJournalOfAnotherVersion(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"journal-00000000000000000001.log":   "quotad journal 1\n",
		"journal-00000000000000000001.jsonl": "{}\n",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openJournal(dir, time.Hour); err == nil || !strings.Contains(err.Error(), "move the file away") {
			t.Errorf("%s: got %v, want an error that says what to do", name, err)
		}
	}
}

// A segment that has ended is not needed for a start: the next one begins with all that
// is known.
func TestNewestSegmentTellsAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := mustOpenJournal(t, dir)
	now := time.Now()
	id := quota.ID{Ms: now.UnixMilli(), Seq: 1 << 16}
	g := &offlineGrant{id: id, text: "g,daily=3 list 3 @1 - -", settledTo: "-", pending: true}
	if err := j.offline("one", g); err != nil {
		t.Fatal(err)
	}
	if err := j.mark(mark{credential: "one", position: position{"epoch@1", id}, used: map[string]quota.Units{"daily": 7}}); err != nil {
		t.Fatal(err)
	}
	if _, err := j.next(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(string(j.segments[0])); err != nil {
		t.Fatal(err)
	}
	m, grants := mustOpenJournal(t, dir).known("one")
	if m.epoch != "epoch@1" || m.newest != id || m.used["daily"] != 7 {
		t.Errorf("got %+v, want what was known", m)
	}
	if len(grants) != 1 || !grants[0].pending || grants[0].units != 3 {
		t.Errorf("got %+v, want the grant that is not replayed", grants)
	}
}

// A segment that has just begun is not on disk yet. However much of it a machine that loses
// its power has, the segment before tells the rest, and the next start needs neither.
func TestHeadThatWasCutShort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := mustOpenJournal(t, dir)
	id := quota.ID{Ms: time.Now().UnixMilli(), Seq: 1 << 16}
	g := &offlineGrant{id: id, text: "g,daily=3 list 3 @1 - -", settledTo: "-", pending: true}
	if err := j.offline("one", g); err != nil {
		t.Fatal(err)
	}
	if _, err := j.next(); err != nil {
		t.Fatal(err)
	}
	before, newest := j.segments[0], j.segments[1]
	head, err := os.ReadFile(string(newest))
	if err != nil {
		t.Fatal(err)
	}
	ended, err := os.ReadFile(string(before))
	if err != nil {
		t.Fatal(err)
	}
	for size := range head {
		dir := t.TempDir()
		err1 := os.WriteFile(filepath.Join(dir, filepath.Base(string(before))), ended, 0o600)
		err2 := os.WriteFile(filepath.Join(dir, filepath.Base(string(newest))), head[:size], 0o600)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		j := mustOpenJournal(t, dir)
		if len(j.segments) != 3 {
			t.Fatalf("with %d bytes of the head: %d segments, want another one with a whole head", size, len(j.segments))
		}
		if err := errors.Join(os.Remove(string(j.segments[0])), os.Remove(string(j.segments[1]))); err != nil {
			t.Fatal(err)
		}
		for _, j := range []*journal{j, mustOpenJournal(t, dir)} {
			if _, grants := j.known("one"); len(grants) != 1 || !grants[0].pending || grants[0].units != 3 {
				t.Fatalf("with %d bytes of the head: got %+v, want the grant that is not replayed", size, grants)
			}
		}
	}
}

// What left every window is passed over without being understood.
func TestOldEntriesAreNotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now().UnixMilli()
	writeSegment(t, dir, fmt.Sprintf("e one epoch@1 %d-0 old\ne two epoch@1 %d-0 other\ne one epoch@1 %d-1 new\n", now-10_000, now, now))
	if got := entriesOf(t, mustOpenJournal(t, dir), time.UnixMilli(now-5000)); len(got) != 1 || got[0] != fmt.Sprintf("%d-1", now) {
		t.Errorf("got %q, want the one entry within the time", got)
	}
}

// A journal that cannot be begun, or gone on with, is an error that says so, and nothing
// that was in it is lost.
func TestJournalThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	for _, test := range []struct {
		name string
		keep bool // it has been begun before
		harm func(dir string) error
		mend func(dir string) error
		want string
	}{
		{"a read-only directory", false, remount(syscall.MS_RDONLY), remount(0), "read-only file system"},
		{"a read-only journal", true, remount(syscall.MS_RDONLY), remount(0), "read-only file system"},
		{"a full disk", false, fill, empty, "no space left on device"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
				t.Skipf("cannot mount a file system: %v", err)
			}
			t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
			id, kept := quota.ID{Ms: time.Now().UnixMilli()}, 0
			if test.keep {
				j := mustOpenJournal(t, dir)
				if err := errors.Join(j.log("one", "epoch@1", logLine{id.String(), "g,daily=1 list 1 @1 - -"}), j.close()); err != nil {
					t.Fatal(err)
				}
				kept = 1
			}
			if err := test.harm(dir); err != nil {
				t.Fatal(err)
			}
			_, err := openJournal(dir, time.Hour)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "journal") || !strings.Contains(err.Error(), dir) {
				t.Errorf("got %v, want an error that names the journal and says %q", err, test.want)
			}
			if err := test.mend(dir); err != nil {
				t.Fatal(err)
			}
			if got := entriesOf(t, mustOpenJournal(t, dir), time.Time{}); len(got) != kept {
				t.Errorf("got the entries %q, want %d", got, kept)
			}
		})
	}
}

func remount(flags uintptr) func(dir string) error {
	return func(dir string) error { return syscall.Mount("", dir, "", syscall.MS_REMOUNT|flags, "") }
}

func fill(dir string) error {
	file, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		return err
	}
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	if errors.Is(err, syscall.ENOSPC) {
		return nil
	}
	return err
}

func empty(dir string) error { return os.Remove(filepath.Join(dir, "ballast")) }
