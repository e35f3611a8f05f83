package process

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"quotad/jobs"
)

// tell connects to a socket and hangs up.
func tell(socket string) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		panic(err)
	}
	conn.Close()
}

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
		{"as long as is kept", long + "\nb", []jobs.Line{{Text: long}, {Text: "b"}}},
		{"longer than is kept", long + "y\nb", []jobs.Line{{Text: long, Cut: true}, {Text: "b"}}},
		{"far longer, at the end", "a\n" + long + long + long, []jobs.Line{{Text: "a"}, {Text: long, Cut: true}}},
		{"cut within a character", long[1:] + "€\nb", []jobs.Line{{Text: long[1:], Cut: true}, {Text: "b"}}},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			t.Run(fmt.Sprintf("%s, %d bytes at a time", row.name, size), func(t *testing.T) {
				var got []jobs.Line
				readLines(&parts{[]byte(row.write), size}, "", func(line jobs.Line) { got = append(got, line) })
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
	want := []jobs.Line{
		{Stream: "stdout", Text: strings.Repeat("m", maxLine), Cut: true},
		{Stream: "stdout", Text: "the last words"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %.200v, want %.200v", got, want)
	}
}

// While nobody takes its lines, a command goes on to its end. All its lines are
// accounted for, and the last ones are there.
func TestAFloodIsBoundedAndNeverStalls(t *testing.T) {
	const written = 200_000
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	must(t, err)
	defer listener.Close()
	told := func() {
		if conn, err := listener.Accept(); err == nil {
			conn.Close()
		}
	}
	handed, dropped, last := 0, 0, ""
	c := command("flood", strconv.Itoa(written), socket)
	exit := Launcher{}.Launch(t.Context(), t.Context(), c, func(line jobs.Line) {
		if handed+dropped == 0 {
			told() // it has written everything
		}
		if line.Dropped > 0 {
			dropped += line.Dropped
			if !line.Cut || !strings.Contains(line.Text, strconv.Itoa(line.Dropped)) {
				t.Errorf("not marked: %+v", line)
			}
			return
		}
		handed++
		last = line.Text
	})
	if exit.Code != 0 {
		t.Fatalf("got %+v", exit)
	}
	if handed+dropped != written+1 || handed > burst+3*maxLines {
		t.Errorf("handed on %d and dropped %d of %d", handed, dropped, written+1)
	}
	if last != "the last words" {
		t.Errorf("the last line is %q", last)
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

func TestFeedDropsTheOldest(t *testing.T) {
	var got []jobs.Line
	f := newQueue(func(line jobs.Line) { got = append(got, line) })
	for i := range maxLines + 7 {
		f.push(jobs.Line{Stream: "stdout", Text: strconv.Itoa(i)})
	}
	f.push(jobs.Line{Stream: "stderr", Text: "x"})
	f.close()
	f.run()
	if len(got) != 1+maxLines || got[0].Dropped != 8 || got[0].Stream != "stdout" {
		t.Fatalf("got %d lines, the first %+v", len(got), got[0])
	}
	if got[1].Text != "8" || got[maxLines].Text != "x" {
		t.Errorf("got %+v … %+v", got[1], got[maxLines])
	}
	f.pause(time.Hour) // not any more
	f = newQueue(func(jobs.Line) {})
	for range 20 {
		f.push(jobs.Line{Text: strings.Repeat("x", maxLine)})
	}
	if f.bytes > maxBytes || len(f.waiting) != maxBytes/maxLine {
		t.Errorf("%d lines of %d bytes wait", len(f.waiting), f.bytes)
	}
}

func TestFeedKeepsThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handed atomic.Int64
		f := newQueue(func(jobs.Line) { handed.Add(1) })
		push := func(n int) {
			for range n {
				f.push(jobs.Line{})
			}
			synctest.Wait()
		}
		go f.run()
		push(burst / 2)
		push(burst / 2)
		push(10)
		if got := handed.Load(); got != burst {
			t.Errorf("at once: handed on %d, want %d", got, burst)
		}
		time.Sleep(3*lineInterval + lineInterval/2) // of the bubble's clock
		synctest.Wait()
		if got := handed.Load(); got != burst+3 {
			t.Errorf("then: handed on %d, want %d", got, burst+3)
		}
		f.close()
		synctest.Wait()
		if got := handed.Load(); got != burst+10 {
			t.Errorf("at the end: handed on %d, want %d", got, burst+10)
		}
	})
}

func TestMeter(t *testing.T) {
	var m limiter
	now := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range burst {
		if wait := m.add(now, 1); wait != 0 {
			t.Fatalf("line %d of the burst waits %v", i, wait)
		}
	}
	wait := m.add(now, 1)
	if wait != lineInterval {
		t.Errorf("after the burst: got %v, want %v", wait, lineInterval)
	}
	now = now.Add(wait)
	if wait := m.add(now, 3); wait != 3*lineInterval {
		t.Errorf("a line of 2 KiB: got %v, want %v", wait, 3*lineInterval)
	}
	now = now.Add(3*lineInterval + burst*lineInterval + time.Hour)
	if wait := m.add(now, burst); wait != 0 {
		t.Errorf("after a rest: got %v, want a whole burst", wait)
	}
	if wait := m.add(now, 1); wait != lineInterval {
		t.Errorf("after that burst: got %v, want %v", wait, lineInterval)
	}
}
