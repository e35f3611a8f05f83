package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"quotad/cmd/ytfetch/upstream"
	"quotad/jobs/process/processtest"
)

func TestMain(m *testing.M) {
	testscript.Main(processtest.Tests(m.Run), map[string]func(){"ytfetch": main})
}

// Scripts run the command as a process of its own, beside a quotad and an
// upstream of this process:
//
//	quotad LIMIT QUOTA   starts both and sets the environment of a pass over DE
//	inject FAULT...      what upstream's next calls meet: pass, refuse, minute, searches, hang, escape, odd
//	exits CODE CMD...    runs a command that must end with that code
//	terminate [KILL]     when upstream's hanging call has arrived, TERM or KILL to what runs in the background
//	books UNITS          what quotad has debited within its window, and upstream charged today
//	bookmark TEXT|none   what the next pass finds
//	rows N TABLE [DIR]   how many rows a table of DIR/videos.db has, or those that a condition selects
//	serve ARG...         runs the sample over HTTP until the script ends, and sets ADDRESS
//	later SPAN           the clock of both goes on, and with it the slot
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Files:               files,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Values[scriptKey{}] = &script{arrived: make(chan struct{}, 1)}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"quotad": startQuotad, "inject": inject, "exits": exits, "terminate": terminate, "books": books, "bookmark": bookmark, "rows": rows, "serve": serveSample, "later": later,
		},
	})
}

type scriptKey struct{}

// A script is what one of them has started.
type script struct {
	env     *testEnv
	arrived chan struct{} // receives when a hanging call has arrived
}

func scriptOf(ts *testscript.TestScript) *script { return ts.Value(scriptKey{}).(*script) }

func startQuotad(ts *testscript.TestScript, _ bool, args []string) {
	limit, err := strconv.ParseInt(args[0], 10, 64)
	ts.Check(err)
	quota, err := strconv.Atoi(args[1])
	ts.Check(err)
	e, err := openEnv(envConfig{limit: limit, quota: quota})
	ts.Check(err)
	ts.Defer(func() { ts.Check(e.close()) })
	scriptOf(ts).env = e
	for name, value := range map[string]string{
		"BASE": e.baseURL(), "YOUTUBE_API_KEY": secret,
		"SOCKET": e.socket(), "TOKEN": runToken,
		"QUOTAD_SOCKET": e.socket(), "QUOTAD_TOKEN": runToken, "QUOTAD_CREDENTIAL": "youtube", "QUOTAD_REGION": "DE",
		"QUOTAD_JOB_DIR": ts.MkAbs("."), "QUOTAD_SCHEDULED_AT": "2026-11-21T13:30:00+01:00", "QUOTAD_DEADLINE": time.Now().Add(time.Minute).Format(time.RFC3339),
	} {
		ts.Setenv(name, value)
	}
}

func inject(ts *testscript.TestScript, _ bool, args []string) {
	s := scriptOf(ts)
	for _, name := range args {
		faults := map[string]http.HandlerFunc{
			"pass": nil, "minute": minuteLimit, "hang": s.hang,
			"refuse":   refuse(http.StatusBadRequest, "usageLimits", "keyInvalid", "Bad Request"),
			"escape":   escape,
			"odd":      func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"items":[{"id":{"videoId":"a,b&c"}}]}`) },
			"searches": refuse(http.StatusTooManyRequests, "global", "rateLimitExceeded", fmt.Sprintf(quotaTemplate, "Search Queries", "Search Queries per day")),
		}
		fault, known := faults[name]
		if !known {
			ts.Fatalf("unknown fault %q", name)
		}
		s.env.upstream.Inject(fault)
	}
}

// escape answers with a video whose texts are commands to a terminal.
func escape(w http.ResponseWriter, _ *http.Request) {
	const text = `evil \u001b[31mred\u001b]0;title\u0007`
	fmt.Fprintf(w, `{"items":[{"id":"evil","snippet":{"title":"%[1]s","description":"%[1]s","channelTitle":"%[1]s","tags":["%[1]s"]}}]}`, text)
}

// hang answers nothing until the caller has gone.
func (s *script) hang(_ http.ResponseWriter, r *http.Request) {
	s.arrived <- struct{}{}
	<-r.Context().Done()
}

func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("got exit code %d, want %d", got, want)
	}
}

func terminate(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	select {
	case <-scriptOf(ts).arrived:
	case <-ctx.Done():
		ts.Fatalf("no call arrived upstream")
	}
	signal := os.Signal(syscall.SIGTERM)
	if len(args) > 0 {
		signal = syscall.SIGKILL
	}
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(signal))
	}
}

func books(ts *testscript.TestScript, _ bool, args []string) {
	e := scriptOf(ts).env
	ts.Check(e.compare())
	used, err := e.used()
	ts.Check(err)
	if want, err := strconv.ParseInt(args[0], 10, 64); err != nil || used != want {
		ts.Fatalf("got %d units debited and charged, want %s", used, args[0])
	}
}

func bookmark(ts *testscript.TestScript, _ bool, args []string) {
	left := &options{region: "DE", jobDir: ts.Getenv("QUOTAD_JOB_DIR")}
	if args[0] == "none" {
		args[0] = ""
	}
	ts.Check(left.keepFile(args[0]))
}

func later(ts *testscript.TestScript, _ bool, args []string) {
	span, err := time.ParseDuration(args[0])
	ts.Check(err)
	clock := scriptOf(ts).env.clock
	clock.Add(span)
	ts.Setenv("QUOTAD_SCHEDULED_AT", clock.Now().Format(time.RFC3339))
}

func rows(ts *testscript.TestScript, _ bool, args []string) {
	dir := "."
	if len(args) > 2 {
		dir = args[2]
	}
	got, err := countOf(ts.MkAbs(dir), args[1])
	ts.Check(err)
	if want, err := strconv.Atoi(args[0]); err != nil || got != want {
		ts.Fatalf("got %d rows of %s, want %s", got, args[1], args[0])
	}
}

func serveSample(ts *testscript.TestScript, _ bool, args []string) {
	server := exec.Command("ytfetch", append([]string{"serve", "--sample", "--listen", "127.0.0.1:0"}, args...)...)
	stderr, err := server.StderrPipe()
	ts.Check(err)
	ts.Check(server.Start())
	ts.Defer(func() {
		ts.Check(server.Process.Signal(syscall.SIGTERM))
		ts.Check(server.Wait()) // it ends well
	})
	line, err := bufio.NewReader(stderr).ReadString('\n')
	ts.Check(err)
	_, rest, _ := strings.Cut(line, "http://")
	address, _, found := strings.Cut(rest, upstream.Path)
	if !found {
		ts.Fatalf("it says %q", line)
	}
	ts.Setenv("ADDRESS", address)
}
