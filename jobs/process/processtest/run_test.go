package processtest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience ends a test that hangs: whatever it waits for takes less, on a busy machine too.
const patience = 3 * time.Minute

// ending is how the tests of a process end that this test starts. In any other it is unset.
const ending = "QUOTAD_CHILD_ENDING"

func TestMain(m *testing.M) { os.Exit(Tests(m.Run).Run()) }

// However tests end, nothing is left of what they started and wrote: every process holds the
// pipe that is read here to its end.
func TestNothingIsLeft(t *testing.T) {
	for how, want := range map[string]struct {
		code int
		says string
	}{
		"pass":    {0, "PASS"},
		"fail":    {1, "FAIL"},
		"panic":   {2, "panic: in a goroutine"},
		"timeout": {2, "panic: test timed out"},
		"killed":  {1, "they ended by a signal: killed"},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			held, holds, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("/proc/self/exe", "-test.run=^TestLeavesMuch$")
			temp := t.TempDir()
			cmd.Env = []string{"TMPDIR=" + temp, ending + "=" + how, "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
			if how == "timeout" {
				cmd.Args = append(cmd.Args, "-test.timeout=100ms")
			}
			cmd.ExtraFiles = []*os.File{holds}
			output, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != want.code || !strings.Contains(string(output), want.says) {
				t.Errorf("exit code %d (%v), want %d and %q:\n%s", code, err, want.code, want.says, output)
			}
			if left, err := os.ReadDir(temp); len(left) > 0 || err != nil {
				t.Errorf("it left %v (%v)", left, err)
			}
			holds.Close()
			held.SetReadDeadline(time.Now().Add(patience))
			said, err := io.ReadAll(held)
			if err != nil || string(said) != "leader daemon " {
				t.Errorf("of what it started: %q, and then %v, want both of them to have been and to be gone", said, err)
			}
		})
	}
}

// TestLeavesMuch leaves a directory and a session of two behind, one of which ignores TERM.
func TestLeavesMuch(t *testing.T) {
	how := os.Getenv(ending)
	if how == "" {
		t.Skip("it is for another test")
	}
	if _, err := os.MkdirTemp("", "left"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `printf 'leader ' >&3; (trap '' TERM; printf 'daemon ' >&3; echo ready; sleep 600 >&-; true) & exec sleep 600 >&-`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.ExtraFiles = []*os.File{os.NewFile(3, "pipe")}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fscanln(output, new(string)) // both are there
	switch how {
	case "fail":
		t.Fail()
	case "panic":
		go panic("in a goroutine")
		select {}
	case "timeout":
		select {}
	case "killed":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}
