package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/notify"
	jobsapi "quotad/jobs/api"
	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

// Each incident that somebody is called for is a script: the first line that quotactl prints names it,
// the command in it is run, and in the end nothing needs attention. Beside the commands of the other
// scripts:
//
//	says LINE [LINE...]  waits until quotactl's first line matches, and holds its other lines against the rest
//	agree KIND OF [grave] holds what the status, the metric, an alert and the command of [on_event] say of a trouble together
//	agree nothing        holds that the status and the metric name no trouble
//	redis start|kill|flush|do COMMAND [ARG...]   start sets ONREDIS to the lines of such a ledger
//	disk DIR SIZE        mounts a small one; it skips the script where that is not possible
func TestOnCall(t *testing.T) {
	seedtest.SkipUnderRace(t)
	t.Parallel()
	runScripts(t, scriptsIn(t, "testdata/oncall"), map[string]string{"NOON": zoneAt(time.Now(), 12)})
}

func saysFirst(ts *testscript.TestScript, _ bool, args []string) {
	var wanted []*regexp.Regexp
	for _, arg := range args {
		want, err := regexp.Compile(arg)
		ts.Check(err)
		wanted = append(wanted, want)
	}
	ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
	defer cancel()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for lines := []string{""}; ; <-tick.C {
		missing := slices.IndexFunc(wanted[1:], func(want *regexp.Regexp) bool { return !slices.ContainsFunc(lines[1:], want.MatchString) })
		switch says := wanted[0].MatchString(lines[0]); {
		case says && missing < 0:
			return
		case ctx.Err() != nil && !says:
			ts.Fatalf("the first line is %q, never %s", lines[0], wanted[0])
		case ctx.Err() != nil:
			ts.Fatalf("no line matches %s: %q", wanted[1+missing], lines)
		}
		ts.Exec("quotactl") // while quotad does not serve, it fails and says why
		lines = strings.Split(ts.ReadFile("stdout")+ts.ReadFile("stderr"), "\n")
	}
}

func agree(ts *testscript.TestScript, _ bool, args []string) {
	tb := ts.Value(tbKey{}).(testing.TB)
	ts.Check(ts.Exec("quotactl", "-o", "json"))
	var status struct{ Triage jobsapi.Triage }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &status))
	metrics := scrape(tb, &api.Client{Socket: ts.Getenv("QUOTAD_SOCKET")})
	if args[0] == "nothing" {
		if strings.Contains(metrics, "\nquotad_trouble{") || len(status.Triage.Troubles) > 0 {
			ts.Fatalf("the status says %+v, and the metrics are\n%s", status.Triage, metrics)
		}
		return
	}
	kind, of, grave := args[0], args[1], len(args) > 2
	i := slices.IndexFunc(status.Triage.Troubles, func(one jobsapi.Trouble) bool { return one.Kind == kind && one.Of == of })
	if i < 0 || status.Triage.Troubles[i].Grave != grave || i == 0 && status.Triage.Says != status.Triage.Troubles[i].Says {
		ts.Fatalf("the status says %+v", status.Triage)
	}
	if series := fmt.Sprintf("\nquotad_trouble{grave=\"%t\",kind=%q,of=%q} 1\n", grave, kind, of); !strings.Contains(metrics, series) {
		ts.Fatalf("there is no %s", series)
	}
	if expr := fmt.Sprintf("quotad_trouble{grave=\"%t\"} == 1", grave); !strings.Contains(readPage(tb, "metrics/alerts.yml"), expr) {
		ts.Fatalf("no alert asks for %s", expr)
	}
	tick, begun := time.NewTicker(100*time.Millisecond), time.Now()
	defer tick.Stop()
	for ; ; <-tick.C {
		told, _ := os.ReadFile(ts.MkAbs("told"))
		for line := range bytes.Lines(told) {
			var e notify.Event
			ts.Check(json.Unmarshal(line, &e))
			if e.Event == config.EventTrouble && string(e.Kind) == kind && e.Of == of && e.Grave == grave && e.Do == status.Triage.Troubles[i].Do && e.Says != "" {
				return
			}
		}
		if time.Since(begun) > hangTimeout {
			ts.Fatalf("the command was told\n%s", told)
		}
	}
}

func redisCommand(ts *testscript.TestScript, _ bool, args []string) {
	s, tb := scriptOf(ts), ts.Value(tbKey{}).(testing.TB)
	switch args[0] {
	case "start":
		if s.redis != nil {
			s.redis.Run(tb)
			return
		}
		s.redis = redistest.Start(tb, "--appendonly", "yes", "--appendfsync", "no")
		ts.Setenv("REDIS", s.redis.Addr)
		ts.Setenv("ONREDIS", "[ledger]\n"+onRedis(s.redis.Addr))
	case "kill":
		s.redis.Kill()
	case "flush":
		s.redis.Do(tb, "FLUSHALL")
	case "do":
		s.redis.Do(tb, args[1:]...)
	}
}

func diskCommand(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.Mkdir(dir, 0o755))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=700,size="+args[1]); err != nil {
		ts.Value(tbKey{}).(testing.TB).Skipf("cannot mount a small file system: %v", err)
	}
	ts.Defer(func() { ts.Check(syscall.Unmount(dir, syscall.MNT_DETACH)) })
}
