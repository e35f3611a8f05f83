package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"quotad/cmd/ytfetch/upstream"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

// Scripts drive quotad, quotactl and ytfetch as processes, on the embedded ledger. That Redis decides alike is held by
// the suite of quota/ledgertest. Beside testscript's own commands:
//
//	configure FILE               expands $VARIABLES in FILE, such as $BUDGET and $TOLD (an [on_event]), and gives its ledger the deadline of a busy machine
//	daemon NAME [as USER|from DIR] [ARG...] starts quotad, and waits until it serves
//	await NAME MESSAGE [F=V...]  waits for a line of its log, behind the one that was awaited last
//	halt NAME                    sends it TERM, and waits until it has ended well; so does the end of the script
//	signal NAME SIGNAL           sends it TERM, KILL or HUP
//	ends NAME CODE               waits for its end; -1: by a signal
//	upstream QUOTA [PAGES [KEY]] serves a video API at $BASE of $HOST with a true daily quota of its own, and empty books
//	books UNITS                  holds what the upstream charged against UNITS, and that it never refused
//	gone FILE                    waits until no process has the pid that FILE holds
//	edit FILE OLD NEW            replaces the only OLD in FILE
//	sample FILE                  runs the commands of FILE, of which the first serves the sample, and sets SAMPLE to its address
//	readme FILE TEXT [README]    writes FILE from the only block of the README, or of another one, that holds TEXT
//	recipe [TEXT...]             writes config.toml of the base of all recipes, and of their blocks that hold TEXT
func TestScripts(t *testing.T) {
	seedtest.SkipUnderRace(t)
	t.Parallel()
	runScripts(t, scriptsIn(t, "testdata"), nil)
}

func scriptsIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s: %v", dir, err)
	}
	return files
}

// runScripts runs scripts, with further variables in their environment.
func runScripts(t *testing.T, files []string, environ map[string]string) {
	file := shipped(t)
	testscript.Run(t, testscript.Params{
		Files:               files,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Getuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Setup: func(env *testscript.Env) error {
			s := &scriptState{daemons: map[string]*child{}}
			env.Values[scriptKey{}], env.Values[tbKey{}] = s, env.T()
			env.Defer(func() { s.clear(env.T().(testing.TB)) })
			root, err := filepath.Abs("../..")
			for name, value := range environ {
				env.Setenv(name, value)
			}
			env.Setenv("ROOT", root)
			env.Setenv("SHIPPED", file)
			env.Setenv("TOLD", fmt.Sprintf("[on_event]\ncommand = [\"sh\", \"-c\", \"cat >>%s/told\"]", env.WorkDir))
			env.Setenv("BUDGET", "[ledger]\nbackend = \"embedded\"\n"+oneBudget)
			env.Setenv("ONEBUDGET", oneBudget)
			env.Setenv("FAR", far)
			env.Setenv("FARMINUTE", farMinute)
			env.Setenv("QUOTAD_SOCKET", filepath.Join(env.WorkDir, ".quotad/quotad.sock"))
			// Under -race each program would linger for a second at its end.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"configure": configure, "edit": edit, "readme": readme, "recipe": recipe, "sample": sampleCommand,
			"daemon": daemonCommand, "await": await, "address": addressCommand, "signal": signalCommand, "ends": ends, "halt": halt,
			"upstream": upstreamCommand, "books": books, "gone": gone, "shows": shows,
			"says": saysFirst, "agree": agree, "redis": redisCommand, "disk": diskCommand,
		},
	})
}

// oneBudget is a credential of which a script spends.
const oneBudget = "[credentials.api]\nlimits.daily.units = 100\noperations.list = 1\n"

// A scriptState is what one script has started.
type scriptState struct {
	daemons map[string]*child
	redis   *redistest.Server // of the script alone; nil: it has none

	server   *httptest.Server                  // serves the upstream
	upstream atomic.Pointer[upstream.Upstream] // as it is today
}

type scriptKey struct{}

type tbKey struct{} // the test of the script

func scriptOf(ts *testscript.TestScript) *scriptState { return ts.Value(scriptKey{}).(*scriptState) }

// clear ends what is left running: well, unless the script has failed.
func (s *scriptState) clear(tb testing.TB) {
	for name, p := range s.daemons {
		if tb.Failed() {
			p.kill()
		} else if err := p.halt(); err != nil {
			tb.Errorf("%s: %v", name, err)
		}
	}
}

// configure gives the ledger a deadline that the disk of a busy machine meets.
func configure(ts *testscript.TestScript, _ bool, args []string) {
	file := ts.MkAbs(args[0])
	text := os.Expand(ts.ReadFile(file), ts.Getenv)
	text = strings.Replace(text, `backend = "embedded"`, onFile, 1)
	ts.Check(os.WriteFile(file, []byte(operable(text)), 0o600))
}

func edit(ts *testscript.TestScript, _ bool, args []string) {
	file, from, to := ts.MkAbs(args[0]), args[1], args[2]
	text := ts.ReadFile(file)
	if strings.Count(text, from) != 1 {
		ts.Fatalf("%q stands %d times in %s", from, strings.Count(text, from), args[0])
	}
	ts.Check(os.WriteFile(file, []byte(strings.Replace(text, from, to, 1)), 0o600))
}

func readme(ts *testscript.TestScript, _ bool, args []string) {
	page := "README.md"
	if len(args) == 3 {
		page = args[2]
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(onlyBlock(ts, page, args[1])), 0o600))
}

// recipe has noon where the recipes have the zone of the API: no day ends in the script.
func recipe(ts *testscript.TestScript, _ bool, args []string) {
	text := ""
	for _, holds := range append([]string{recipesBase}, args...) {
		text += onlyBlock(ts, "cmd/quotad/"+recipesFile, holds)
	}
	text = operable(strings.ReplaceAll(text, "America/Los_Angeles", ts.Getenv("NOON")))
	ts.Check(os.WriteFile(ts.MkAbs("config.toml"), []byte(text), 0o600))
}

func onlyBlock(ts *testscript.TestScript, page, holds string) string {
	found := blocksOf(ts.ReadFile(filepath.Join(ts.Getenv("ROOT"), page)), holds)
	if len(found) != 1 {
		ts.Fatalf("%d blocks of %s hold %q", len(found), page, holds)
	}
	return found[0]
}

// sampleCommand runs the commands of the README that begin with one that serves the sample: that at a
// free port, until the script ends.
func sampleCommand(ts *testscript.TestScript, _ bool, args []string) {
	serve, rest, _ := strings.Cut(ts.ReadFile(args[0]), "\n")
	command, _, found := strings.Cut(serve, " &")
	if !found {
		ts.Fatalf("the first command does not run in the background: %s", serve)
	}
	words := append(strings.Fields(command), "--listen", "127.0.0.1:0")
	server := exec.Command(words[0], words[1:]...)
	stderr, err := server.StderrPipe()
	ts.Check(err)
	ts.Check(server.Start())
	ts.Defer(func() {
		ts.Check(server.Process.Signal(syscall.SIGTERM))
		ts.Check(server.Wait())
	})
	said, err := bufio.NewReader(stderr).ReadString('\n')
	ts.Check(err)
	address := regexp.MustCompile(`http://[0-9.:]+`).FindString(said)
	if address == "" {
		ts.Fatalf("%s says %q", command, said)
	}
	ts.Setenv("SAMPLE", address)
	ts.Check(ts.Exec("sh", "-ec", rest))
}

func daemonCommand(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command("quotad", args[1:]...)
	switch {
	case len(args) > 2 && args[1] == "from":
		cmd = exec.Command(filepath.Join(args[2], "quotad"), args[3:]...)
	case len(args) > 2 && args[1] == "as":
		cmd = exec.Command("setpriv", append([]string{"--reuid=" + args[2], "--regid=" + args[2], "--clear-groups", "quotad"}, args[3:]...)...)
	}
	cmd.Dir = ts.MkAbs(".")
	for _, variable := range []string{"PATH", "HOME", "TMPDIR", "GORACE"} {
		cmd.Env = append(cmd.Env, variable+"="+ts.Getenv(variable))
	}
	p, err := startChild(cmd)
	ts.Check(err)
	scriptOf(ts).daemons[args[0]] = p
	ts.Check(p.await(regexp.MustCompile("^serving$")))
	p.rewind()
}

func childOf(ts *testscript.TestScript, name string) *child {
	p := scriptOf(ts).daemons[name]
	if p == nil {
		ts.Fatalf("no daemon %q was started", name)
	}
	return p
}

func await(ts *testscript.TestScript, _ bool, args []string) {
	message, err := regexp.Compile(args[1])
	ts.Check(err)
	ts.Check(childOf(ts, args[0]).await(message, args[2:]...))
}

// address DAEMON MESSAGE writes the address that a line of the log has into the file address.
func addressCommand(ts *testscript.TestScript, _ bool, args []string) {
	t := ts.Value(tbKey{}).(testing.TB)
	ts.Check(os.WriteFile(ts.MkAbs("address"), []byte(childOf(ts, args[0]).logged(t, args[1], "address")), 0o600))
}

func signalCommand(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP}
	ts.Check(childOf(ts, args[0]).cmd.Process.Signal(signals[args[1]]))
}

func halt(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(childOf(ts, args[0]).halt())
	delete(scriptOf(ts).daemons, args[0])
}

func ends(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	p := childOf(ts, args[0])
	got, err := p.end()
	ts.Check(err)
	if got != want {
		ts.Fatalf("quotad ended with %d, want %d:\n%s", got, want, p.text())
	}
	delete(scriptOf(ts).daemons, args[0])
}

func upstreamCommand(ts *testscript.TestScript, _ bool, args []string) {
	quota, err := strconv.Atoi(args[0])
	ts.Check(err)
	pages := 0
	if len(args) > 1 {
		pages, err = strconv.Atoi(args[1])
		ts.Check(err)
	}
	key := ""
	if len(args) > 2 {
		key = args[2]
	}
	// One day for all of the test: by the clock, it could end meanwhile.
	noon := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	u := upstream.New(upstream.Config{Quota: quota, PagesPerRegion: pages, Key: key, Now: func() time.Time { return noon }})
	s := scriptOf(ts)
	s.upstream.Store(u)
	if s.server == nil {
		s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.upstream.Load().ServeHTTP(w, r) }))
		ts.Defer(s.server.Close)
		ts.Setenv("BASE", s.server.URL+upstream.Path)
		ts.Setenv("HOST", s.server.URL)
	}
}

func books(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	counts := scriptOf(ts).upstream.Load().Counts()
	if counts.Units != want || counts.Refused != 0 {
		ts.Fatalf("the upstream charged %d units and refused %d calls, want %d and none", counts.Units, counts.Refused, want)
	}
}

// gone counts a process that nobody has reaped as gone: in a container there may
// be nobody to do it.
func gone(ts *testscript.TestScript, _ bool, args []string) {
	pid := strings.TrimSpace(ts.ReadFile(args[0]))
	ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
	defer cancel()
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		if state := processState(pid); state == "" || state == "Z" {
			tick.Stop()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("process %s lives on", pid)
		}
	}
}

// processState returns the state of a process as proc(5) has it, "" if there is none.
func processState(pid string) string {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return ""
	}
	_, behindName, _ := strings.Cut(string(text), ") ")
	return behindName[:1]
}
