package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"quotad/quota/redisledger/redistest"
)

// formerVariable names the commit or the tag of the version before.
const formerVariable = "QUOTAD_TEST_UPGRADE"

// TestUpgrade upgrades a daemon, and rolls it back, with its ledger in a file and in Redis.
func TestUpgrade(t *testing.T) {
	commit := os.Getenv(formerVariable)
	if commit == "" {
		t.Skipf("set %s to the version before", formerVariable)
	}
	tree, bin := t.TempDir(), t.TempDir()
	for _, command := range []*exec.Cmd{
		exec.Command("git", "-C", "../..", "archive", "--output", filepath.Join(tree, "tree.tar"), commit+"^{tree}"),
		exec.Command("tar", "-x", "-C", tree, "-f", filepath.Join(tree, "tree.tar")),
		exec.Command("go", "build", "-C", tree, "-trimpath", "-o", bin, "./cmd/quotad", "./cmd/quotactl"),
	} {
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command.Args, err, output)
		}
	}
	for name, ledger := range map[string]func() string{
		"embedded": func() string { return `backend = "embedded"` }, "redis": func() string { return onRedis(redistest.Start(t).Addr) },
	} {
		t.Run(name, func(t *testing.T) {
			runScripts(t, scriptsIn(t, "testdata/upgrade"), map[string]string{"FORMER": bin, "LEDGER": ledger()})
		})
	}
}
