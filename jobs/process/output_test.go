package process

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"quotad/jobs"
)

// parts are read size bytes at a time.
type parts struct {
	left []byte
	size int
}

func (p *parts) Read(b []byte) (n int, err error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n = copy(b, p.left[:min(p.size, len(p.left))])
	p.left = p.left[n:]
	return n, nil
}

func TestOutput(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for _, row := range []struct {
		name  string
		write string
		want  []jobs.Line
	}{
		{"nothing", "", nil},
		{"lines", "a\nb\n", []jobs.Line{{Text: "a"}, {Text: "b"}}},
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
		for _, size := range []int{1, 7, 1 << 20} {
			t.Run(fmt.Sprintf("%s, %d bytes at a time", row.name, size), func(t *testing.T) {
				var got []jobs.Line
				newLines(nil, func(text string, cut bool) { got = append(got, jobs.Line{Text: text, Cut: cut}) }).read(&parts{[]byte(row.write), size})
				if !slices.Equal(got, row.want) {
					t.Errorf("got %.200v, want %.200v", got, row.want)
				}
			})
		}
	}
}

func TestStreamsAreToldApart(t *testing.T) {
	got := map[string]string{}
	c := command("write", `"to out"`, "2>", `"to err\n"`)
	Launcher{}.Launch(t.Context(), t.Context(), c, func(line jobs.Line) { got[line.Stream] += line.Text })
	if got["stdout"] != "to out" || got["stderr"] != "to err" {
		t.Errorf("got %q", got)
	}
}

func TestAMegabyteWithoutNewline(t *testing.T) {
	var got []jobs.Line
	c := command("long", strconv.Itoa(1<<20))
	if exit := (Launcher{}).Launch(t.Context(), t.Context(), c, func(line jobs.Line) { got = append(got, line) }); exit.Code != 0 {
		t.Fatalf("got %+v", exit)
	}
	whole := ""
	for _, line := range got {
		whole += line.Text
	}
	if want := strings.Repeat("m", 1<<20) + "the last words"; whole != want || len(got) != 1<<20/maxLine+2 {
		t.Errorf("got %d lines of %d bytes", len(got), len(whole))
	}
}

// A command that writes faster than its lines are taken waits. None is lost, also after its end.
func TestAFloodWaits(t *testing.T) {
	const written, slow = 200_000, 100
	next, last := 0, ""
	c := command("flood", strconv.Itoa(written))
	exit := Launcher{}.Launch(t.Context(), t.Context(), c, func(line jobs.Line) {
		if want := fmt.Sprint("line ", next); line.Text != want && next < written {
			t.Fatalf("got %q, want %q", line.Text, want)
		}
		if next++; next > written-slow { // the command has ended, and its pipe is full
			time.Sleep(2 * drainTimeout / slow)
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
	c.Timeout, c.KillGrace = time.Second, time.Millisecond
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

// A command that closes its output, and goes on, is waited for.
func TestACommandThatClosesItsOutput(t *testing.T) {
	var got []string
	c := command()
	c.Args = []string{"/bin/sh", "-c", "echo begun; exec >&- 2>&-; sleep 0.3; exit 4"}
	exit := Launcher{}.Launch(t.Context(), t.Context(), c, func(line jobs.Line) { got = append(got, line.Text) })
	if exit.Code != 4 || !slices.Equal(got, []string{"begun"}) {
		t.Errorf("got %+v and %q", exit, got)
	}
}

// A pass that writes 100 MB as fast as it can loses nothing.
func TestAHundredMegabytes(t *testing.T) {
	lines, size := 0, 0
	c := command()
	c.Args = []string{"/bin/sh", "-c", "head -c 104857600 /dev/zero | tr '\\0' m"}
	exit := Launcher{}.Launch(t.Context(), t.Context(), c, func(line jobs.Line) { lines, size = lines+1, size+len(line.Text) })
	if exit.Code != 0 || size != 100<<20 || lines != (100<<20+maxLine-1)/maxLine {
		t.Errorf("got %+v, %d bytes in %d lines", exit, size, lines)
	}
}

// What got away and still holds the output keeps nobody waiting for ever.
func TestAnEscapeeThatHoldsTheOutput(t *testing.T) {
	t.Parallel()
	b := begin(t, Launcher{}, command("vanish", "leave", "sleep"))
	pids := b.ready(3)
	exit := b.end()
	if exit.Code != 0 || exit.Cause != nil || exit.Took < drainTimeout {
		t.Errorf("got %+v, want success after %v", exit, drainTimeout)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Errorf("it has not got away: %v", err)
	}
}
