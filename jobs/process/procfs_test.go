package process

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestParseStat(t *testing.T) {
	const rest = " 77 78 79 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 %t 0 4711 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 %x 0 0 0"
	stat := func(name, state, threads, exitSignal string) string {
		return "80 (" + name + ") " + state + strings.NewReplacer("%t", threads, "%x", exitSignal).Replace(rest)
	}
	for _, row := range []struct {
		name, stat string
		zombie     bool
	}{
		{"a process", stat("sh", "S", "1", "17"), false},
		{"a name like no name", stat("a) Z 1 (b", "R", "1", "17"), false},
		{"a zombie", stat("sh", "Z", "1", "17"), true},
		{"a process whose first thread has ended", stat("java", "Z", "2", "17"), false},
	} {
		want := process{pid: 80, parent: 77, group: 78, session: 79, start: 4711, zombie: row.zombie}
		if got, err := parseStat(80, []byte(row.stat)); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", row.name, got, err, want)
		}
	}
	for _, wrong := range []string{"", "80", "80 (sh", "80 (sh) S 1 2", stat("sh", "S", "1", "17")[:80]} {
		if got, err := parseStat(80, []byte(wrong)); err == nil {
			t.Errorf("%q: got %+v, want an error", wrong, got)
		}
	}
}

func TestProcesses(t *testing.T) {
	self, err := readProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(processes(), self) {
		t.Errorf("%+v is not in the process table", self)
	}
	if _, err := readProcess(1 << 22); err == nil {
		t.Error("found a process that cannot be")
	}
}

func TestChildrenOf(t *testing.T) {
	b := begin(t, Launcher{}, command("stay", "sleep"))
	pids := b.ready(2)
	if got := childrenOf(pids[1]); !slices.Equal(got, pids[:1]) {
		t.Errorf("got %v, want %v", got, pids[:1])
	}
	b.stop(nil)
	b.end(pids...)
	if got := childrenOf(pids[1]); len(got) > 0 {
		t.Errorf("got %v of a process that is gone", got)
	}
}

func TestCarries(t *testing.T) {
	b := begin(t, Launcher{}, command("sleep"))
	b.ready(1)
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", b.id.PID))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		marks []string
		want  bool
	}{
		{nil, false},
		{[]string{childVariable + "=1"}, true},
		{[]string{"GORACE=atexit_sleep_ms=0", childVariable + "=1"}, true},
		{[]string{childVariable + "=1", "X=1"}, false},
		{[]string{childVariable + "="}, false},
		{[]string{"CHILD=1"}, false},
	} {
		if got := carries(environ, row.marks); got != row.want {
			t.Errorf("%q: got %t, want %t", row.marks, got, row.want)
		}
	}
	b.stop(nil)
	b.end()
}
