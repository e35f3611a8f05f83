package main

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"quotad/cmd/ytfetch/upstream"
	"quotad/jobs/process/processtest"
)

func TestMain(m *testing.M) {
	testscript.Main(processtest.Tests(m.Run), map[string]func(){"ytfetch": main})
}

// Scripts run the command as a process of its own, beside a quotad and an upstream of this process, as a pass over DE:
//
//	exits CODE CMD...    runs a command that must end with that code
//	books UNITS          what quotad has debited, and upstream charged
//	lines N DIR          how many videos are stored in a directory
//	serve ARG...         runs the sample over HTTP until the script ends, and sets ADDRESS
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	must(t, err)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			e := newEnv(t, 9_500, 10_000)
			e.sampled = true
			testscript.Run(t, testscript.Params{
				Files: []string{file}, RequireExplicitExec: true,
				Setup: func(env *testscript.Env) error {
					env.Vars = append(env.Vars, "BASE="+e.base, "YOUTUBE_API_KEY="+secret, "QUOTAD_SOCKET="+e.Socket, "QUOTAD_TOKEN="+runToken,
						"QUOTAD_REGION=DE")
					return nil
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"exits": exits, "serve": serveSample,
					"books": func(ts *testscript.TestScript, _ bool, args []string) {
						charged := strconv.Itoa(e.upstream.Counts().Units)
						if got := strconv.FormatInt(e.debited(), 10); got != args[0] || charged != got {
							ts.Fatalf("got %s units debited and %s charged, want %s", got, charged, args[0])
						}
					},
					"lines": func(ts *testscript.TestScript, _ bool, args []string) {
						if got := strconv.Itoa(len(lines(t, ts.MkAbs(args[1])))); got != args[0] {
							ts.Fatalf("got %s videos, want %s", got, args[0])
						}
					},
				},
			})
		})
	}
}

func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, is := err.(*exec.ExitError); is {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("got exit code %d, want %s", got, args[0])
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
