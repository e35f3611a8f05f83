package main

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

// Each incident that somebody is called for is a script: the first line that quotactl prints names it,
// the command in it is run, and in the end nothing needs attention. Beside the commands of the other
// scripts:
//
//	says LINE [LINE...]  waits until quotactl's first line matches, and holds its other lines against the rest
//	redis start|kill|flush|do COMMAND [ARG...]
//	disk DIR SIZE        mounts a small one; it skips the script where that is not possible
//	fill FILE            with what the disk has room for
func TestOnCall(t *testing.T) {
	seedtest.SkipUnderRace(t)
	t.Parallel()
	runScripts(t, scriptsIn(t, "testdata/oncall"), nil, func(string) string { return onFile })
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
	tick := time.NewTicker(200 * time.Millisecond)
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
	case "kill":
		s.redis.Kill()
	case "flush":
		s.redis.Do(tb, "FLUSHALL")
	case "do":
		s.redis.Do(tb, args[1:]...)
	}
}

func diskCommand(ts *testscript.TestScript, _ bool, args []string) {
	mountSmallDisk(ts.Value(tbKey{}).(testing.TB), ts.MkAbs(args[0]), args[1])
}

func fillCommand(ts *testscript.TestScript, _ bool, args []string) {
	fillDisk(ts.Value(tbKey{}).(testing.TB), ts.MkAbs(args[0]))
}
