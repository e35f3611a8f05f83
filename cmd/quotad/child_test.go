package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// hangTimeout ends a test that hangs: whatever it waits for takes less, on a busy machine too.
const hangTimeout = 3 * time.Minute

// A child is a running quotad with its log.
type child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu    sync.Mutex // guards what follows
	log   []string
	seen  int           // lines of the log that await has gone past
	grown chan struct{} // closed, and replaced, when there is more of the log
	over  bool          // the log is complete
}

// startChild starts a command that is quotad, or becomes it.
func startChild(cmd *exec.Cmd) (*child, error) {
	config := configOf(cmd)
	if err := slotsMayFallIn(config); err != nil {
		return nil, err
	}
	<-time.After(clearOfReset(config, time.Now()))
	c := &child{cmd: cmd, done: make(chan struct{}), grown: make(chan struct{})}
	output, err := c.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.done)
		c.read(output)
		c.cmd.Wait() // its ProcessState tells how it ended
	}()
	return c, nil
}

func (c *child) read(output io.Reader) {
	const longest = 1 << 20 // a line of a pass, in JSON
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, longest)
	for lines.Scan() {
		c.add(lines.Text())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	close(c.grown)
}

func (c *child) add(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, line)
	close(c.grown)
	c.grown = make(chan struct{})
}

// await returns when a line is in the log, after the one that it returned for last: its message matches, and so do its
// fields, given as name=pattern; the whole of a field must match. It fails when the log is complete.
func (c *child) await(message *regexp.Regexp, fields ...string) error {
	deadline := time.NewTimer(hangTimeout)
	defer deadline.Stop()
	for {
		found, over, grown := c.find(message, fields)
		switch {
		case found:
			return nil
		case over:
			return fmt.Errorf("quotad ended and never logged %q %v:\n%s", message, fields, c.text())
		}
		select {
		case <-grown:
		case <-deadline.C:
			return fmt.Errorf("quotad does not log %q %v:\n%s", message, fields, c.text())
		}
	}
}

// rewind has the next await look at the whole log again.
func (c *child) rewind() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = 0
}

// logs awaits a line of the log, for a test that is over without it.
func (c *child) logs(t *testing.T, message string, fields ...string) {
	t.Helper()
	must(t, c.await(regexp.MustCompile(message), fields...))
}

func (c *child) find(message *regexp.Regexp, fields []string) (found, over bool, grown <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, line := range c.log[c.seen:] {
		if says(line, message, fields) {
			c.seen += i + 1
			return true, c.over, c.grown
		}
	}
	return false, c.over, c.grown
}

// says tells whether a line of the log has a message and fields.
func says(line string, message *regexp.Regexp, fields []string) bool {
	var values map[string]any
	if err := json.Unmarshal([]byte(line), &values); err != nil {
		return len(fields) == 0 && message.MatchString(line)
	}
	for _, field := range fields {
		name, pattern, _ := strings.Cut(field, "=")
		got, ok := values[name]
		if whole := regexp.MustCompile("^(?:" + pattern + ")$"); !ok || !whole.MatchString(fmt.Sprint(got)) {
			return false
		}
	}
	return message.MatchString(fmt.Sprint(values["message"]))
}

// text is the end of the log.
func (c *child) text() string {
	const shown = 30
	lines := strings.Split(c.whole(), "\n")
	return strings.Join(lines[max(0, len(lines)-shown):], "\n")
}

// whole is the log from the start of the daemon until now.
func (c *child) whole() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.log, "\n")
}

// logged returns a field of the first line of the log with a message.
func (c *child) logged(t testing.TB, message, field string) string {
	t.Helper()
	for line := range strings.Lines(c.whole()) {
		var values map[string]any
		if json.Unmarshal([]byte(line), &values) == nil && values["message"] == message {
			return fmt.Sprint(values[field])
		}
	}
	t.Fatalf("quotad did not log %q", message)
	return ""
}

// end waits for the end of the process and returns its exit code; -1 if a
// signal killed it.
func (c *child) end() (code int, err error) {
	select {
	case <-c.done:
		return c.cmd.ProcessState.ExitCode(), nil
	case <-time.After(hangTimeout):
		return 0, fmt.Errorf("quotad does not end:\n%s", c.text())
	}
}

// halt asks the daemon to end, and waits until it has ended well.
func (c *child) halt() error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	code, err := c.end()
	if err == nil && code != exitOK {
		err = fmt.Errorf("quotad ended with %d:\n%s", code, c.text())
	}
	return err
}

// kill ends the process, whatever it does.
func (c *child) kill() {
	c.cmd.Process.Kill()
	<-c.done
}

// eventually waits until something is so.
func eventually(t *testing.T, so func() bool) {
	t.Helper()
	tick, deadline := time.NewTicker(20*time.Millisecond), time.After(hangTimeout)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it does not come to pass")
		}
	}
}

// must fails a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
