package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// A user who runs nothing else: the limit counts all that is a user's.
const lonely = 61_234

// A command that forks without end is kept from it by its own limit, before its
// launcher meets its own. What had been started by then is ended with it.
func TestForkBomb(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start the processes of another user, who has none yet")
	}
	program := programForAll(t)
	for name, launcher := range map[string]uint32{"of the same user": lonely, "of another user": 0} {
		t.Run(name, func(t *testing.T) { testForkBomb(t, program, launcher) })
	}
}

func testForkBomb(t *testing.T, program string, launcher uint32) {
	awaitNobody(t, lonely) // of this test, run before: until they are reaped they count
	const commands, all = 64, 128
	cmd := exec.Command(program, "besiege", strconv.Itoa(commands), strconv.Itoa(all))
	cmd.Env = bareEnv()
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: launcher, Gid: launcher}}
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	match := regexp.MustCompile(`(?s)^stopped (\d+)\nbeside it: (.*?)\nover\n$`).FindStringSubmatch(string(output))
	if match == nil {
		t.Fatalf("got %q", output)
	}
	// The threads of both programs count, too.
	if n := number(match[1]); n < commands/4 || n >= commands {
		t.Errorf("it started %d processes, want fewer than %d but not few", n, commands)
	}
	if match[2] != "<nil>" {
		t.Errorf("its launcher cannot start anything beside it: %s", match[2])
	}
	for _, p := range processes() {
		if uidOf(p) == lonely {
			checkEnds(t, p.pid)
		}
	}
}

// programForAll returns this program where every user may execute it.
func programForAll(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "quotad")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "program")
	if output, err := exec.Command("install", "-m", "755", self, path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func uidOf(p process) int {
	info, err := os.Stat("/proc/" + strconv.Itoa(p.pid))
	if err != nil {
		return -1
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}

func awaitNobody(t *testing.T, uid int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		if !slices.ContainsFunc(processes(), func(p process) bool { return uidOf(p) == uid }) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("user %d has processes", uid)
		}
	}
}
