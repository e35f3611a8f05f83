package process

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"quotad/jobs"
)

func TestOutput(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for _, row := range []struct {
		name  string
		write string
		want  []jobs.Line
	}{
		{"nothing", "", nil},
		{"no last newline", "a\nthe last", []jobs.Line{{Text: "a"}, {Text: "the last"}}},
		{"empty lines", "\n\na\n", []jobs.Line{{}, {}, {Text: "a"}}},
		{"carriage returns", "a\r\nb\r\n", []jobs.Line{{Text: "a"}, {Text: "b"}}},
		{"no UTF-8", "caf\xe9 \xff\xfe!\n", []jobs.Line{{Text: "caf\uFFFD \uFFFD!"}}},
		{"a character in two writes", "€", []jobs.Line{{Text: "€"}}},
		{"as long as a line", long + "\nb", []jobs.Line{{Text: long}, {Text: "b"}}},
		{"as long, with a carriage return", long + "\r\nb", []jobs.Line{{Text: long}, {Text: "b"}}},
		{"longer", long + "yz\nb", []jobs.Line{{Text: long, Cut: true}, {Text: "yz"}, {Text: "b"}}},
		{"far longer, at the end", "a\n" + long + long + "y", []jobs.Line{{Text: "a"}, {Text: long, Cut: true}, {Text: long, Cut: true}, {Text: "y"}}},
		{"split within a character", long[1:] + "€\nb", []jobs.Line{{Text: long[1:], Cut: true}, {Text: "€"}, {Text: "b"}}},
	} {
		for _, text := range []io.Reader{strings.NewReader(row.write), iotest.OneByteReader(strings.NewReader(row.write))} {
			var got []jobs.Line
			newLines(nil, func(text string, cut bool) { got = append(got, jobs.Line{Text: text, Cut: cut}) }).read(text)
			if !slices.Equal(got, row.want) {
				t.Errorf("%s: got %.200v, want %.200v", row.name, got, row.want)
			}
		}
	}
}

// A secret that a command was given is in none of its lines, though it prints it; the two streams are told apart.
func TestSecretsAreMasked(t *testing.T) {
	c := shell(`echo 'key=hunter2hunter2&x'; printf 'hunter2 hunt'; echo er2hunter2; printf hunter2hunter2 >&2`)
	c.Secrets = []string{"hunter2", "hunter2hunter2"}
	lines, _ := run(t, Launcher{}, c)
	slices.SortFunc(lines, func(a, b jobs.Line) int { return strings.Compare(a.Text, b.Text) })
	if want := []jobs.Line{{Stream: "stderr", Text: "***"}, {Stream: "stdout", Text: "*** ***"}, {Stream: "stdout", Text: "key=***&x"}}; !slices.Equal(lines, want) {
		t.Errorf("got %v, want %v", lines, want)
	}
}

// A line that is too long shows no part of a secret at which it is split.
func TestSecretsAreMaskedWhereALineIsSplit(t *testing.T) {
	for _, row := range []struct {
		secrets    []string
		text, want string
	}{
		{[]string{"hunter2x", "hunter2xhunter2"}, "key=hunter2xhunter2", "key=***"},
		{[]string{"one SECRET+ two", "SECRET+ "}, "one SECRET+ two", "***"},
		{[]string{"xyzxyzab", "abcdefgh"}, "xyzxyzab", "***"},
		{[]string{"hunter2", "hunter3"}, "hunter2hunter3", "******"},
		{[]string{"pass\xffword1"}, "pass\xffword1", "***"}, // is masked in lines, which are UTF-8
	} {
		for before := maxLine - len(row.text) - 3; before < maxLine+3; before++ {
			got, dots := "", strings.Repeat(".", before)
			newLines(row.secrets, func(text string, _ bool) { got += text }).read(strings.NewReader(dots + row.text + "\n"))
			if got != dots+row.want {
				t.Fatalf("%q after %d bytes: got %q", row.text, before, strings.TrimLeft(got, "."))
			}
		}
	}
	long, got := strings.Repeat("s", 3*maxLine), ""
	newLines([]string{long}, func(text string, _ bool) { got += text }).read(strings.NewReader("a" + long + long + "b"))
	if got != "a******b" {
		t.Errorf("a secret that is longer than a line: got %.100q", got)
	}
}

// A command that writes faster than its lines are taken waits. None is lost, also after its end.
func TestAFloodWaits(t *testing.T) {
	const written, slow = 20_000, 3000 // the last ones, which do not fit into what was read before
	next, last := 0, ""
	exit := Launcher{}.Launch(t.Context(), t.Context(), command("flood", strconv.Itoa(written)), func(line jobs.Line) {
		if want := fmt.Sprint("line ", next); line.Text != want && next < written {
			t.Fatalf("got %q, want %q", line.Text, want)
		}
		if next++; next == written-slow { // the command has ended, and its pipe is full
			time.Sleep(drainTimeout + drainTimeout/10)
		}
		last = line.Text
	})
	if exit.Code != 0 || next != written+1 || last != "the last words" {
		t.Errorf("got %+v after %d lines, the last one %q", exit, next, last)
	}
}

// While its lines are not taken a command stands still, and its timeout ends it.
func TestAFloodEndsAtItsTimeout(t *testing.T) {
	var id jobs.Identity
	c := command("flood", strconv.Itoa(1<<30))
	c.Timeout, c.KillGrace = 200*time.Millisecond, time.Millisecond
	c.Started = func(is jobs.Identity) { id = is }
	exit := Launcher{}.Launch(t.Context(), t.Context(), c, func(jobs.Line) {
		for syscall.Kill(id.PID, 0) == nil {
			time.Sleep(time.Millisecond)
		}
	})
	if exit.Cause != jobs.ErrTimeout {
		t.Errorf("got %+v, want it ended", exit)
	}
}

// A command that closes its output, and goes on, is waited for; what got away and still holds it keeps nobody waiting for
// ever.
func TestWhoHoldsTheOutput(t *testing.T) {
	t.Parallel()
	c := shell("echo begun; exec >&- 2>&-; sleep 0.3; exit 4")
	if lines, exit := run(t, Launcher{}, c); exit.Code != 4 || len(lines) != 1 || lines[0].Text != "begun" {
		t.Errorf("got %+v and %v", exit, lines)
	}
	b := begin(t, Launcher{}, command("vanish", "leave", "sleep"))
	pids := b.ready(3)
	if exit := b.end(); exit.Code != 0 || exit.Cause != nil || exit.Swept != 0 {
		t.Errorf("got %+v, want success", exit)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Errorf("it has not got away: %v", err)
	}
}
