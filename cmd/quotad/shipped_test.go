package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/regions"
)

// shipped returns the path of a copy of config.toml as git has it: whoever follows
// the README edits the one in the clone, and adds what only lies there. A tree
// without git is as it was shipped.
func shipped(t *testing.T) string {
	t.Helper()
	text, err := exec.Command("git", "-C", "../..", "show", "HEAD:./config.toml").Output()
	if err != nil {
		if text, err = os.ReadFile("../../config.toml"); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The example that a newcomer runs is a good file, that fits its limits.
func TestShippedConfig(t *testing.T) {
	file := shipped(t)
	if output, err := exec.Command("quotad", "--check", "--strict", "--config", file).CombinedOutput(); err != nil {
		t.Errorf("quotad --check --strict: %v\n%s", err, output)
	}
	quotad, err := exec.LookPath("quotad")
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, config.Host{Programs: filepath.Dir(quotad)})
	if err != nil {
		t.Fatal(err)
	}
	job := c.Jobs[0]
	want := regions.Ring{"US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"}
	if !slices.Equal(job.Regions, want) || !job.RunAtStart {
		t.Errorf("the job runs at start: %v, over %v; want true, over %v", job.RunAtStart, job.Regions, want)
	}
	if last := time.Duration(len(job.Regions)-1) * job.Stagger; last > 20*time.Second {
		t.Errorf("the last pass of the first run starts after %v: nobody watches for so long", last)
	}
}
