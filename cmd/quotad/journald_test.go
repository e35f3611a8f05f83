package main

import (
	"os/exec"
	"strings"
	"testing"
)

// startInJournal starts quotad with a stderr that is the journal, or, with another
// stream named, is not.
func startInJournal(t *testing.T, config, stream string) *child {
	t.Helper()
	dir := shortDir(t)
	writeConfig(t, dir, config)
	cmd := exec.Command("sh", "-c", "JOURNAL_STREAM="+stream+" exec quotad")
	cmd.Dir = dir
	c, err := startChild(cmd)
	must(t, err)
	t.Cleanup(c.kill)
	return c
}

// ours is the stream that stderr is.
const ours = "$(stat --dereference --format=%d:%i /proc/self/fd/2)"

func TestJournalKnowsLevels(t *testing.T) {
	const failing = "[log]\nlevel = \"debug\"\n" + onSystemd + "stagger = \"0s\"\n"
	daemon := startInJournal(t, strings.Replace(failing, "&& env", "&& exit 3", 1), ours)
	for _, line := range []string{
		`^<6>\{"message":"run begins","level":"info",.*\}$`,
		`^<7>\{"message":"pass begins","level":"debug",.*\}$`,
		`^<3>\{"message":"pass failed","level":"error",.*\}$`,
	} {
		daemon.logs(t, line)
	}
}

func TestJournalKnowsWhyQuotadCannotRun(t *testing.T) {
	daemon := startInJournal(t, onSystemd+"one = 1\ntwo = 2\n", ours)
	if code, err := daemon.end(); code != exitConfig || err != nil {
		t.Errorf("exit code %d: %v", code, err)
	}
	for _, line := range []string{`^<3>config.toml:[0-9]+: jobs.fetch.one: `, `^<3>config.toml:[0-9]+: jobs.fetch.two: `} {
		daemon.logs(t, line)
	}
}

// Redirected by a shell, say, stderr is not what systemd named.
func TestWhatIsNotTheJournalHasNoLevels(t *testing.T) {
	daemon := startInJournal(t, onSystemd, "8:1")
	daemon.logs(t, `^serving$`)
	if text := daemon.whole(); strings.Contains(text, "<6>") {
		t.Errorf("the log:\n%s", text)
	}
}
