package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/config/configtest"
	"quotad/regions"
)

// shipped returns the path of a copy of config.toml as it was shipped.
func shipped(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, configtest.Shipped(t, "../.."), 0o600); err != nil {
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
