package systemd_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// What is installed in the root: Debian as small as it boots, a Redis, and the
// runtimes whose compilers a sandbox could break.
const (
	suite    = "bookworm"
	packages = "systemd,systemd-sysv,dbus,procps,curl,redis-server,python3-minimal,nodejs,php-cli"
)

// debian returns a directory that holds a Debian of the test's own. The first
// test on a host downloads it; the later ones copy it.
func debian(t *testing.T) string {
	t.Helper()
	cached := cachedDebian(t)
	root, err := os.MkdirTemp(filepath.Dir(cached), "root-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	began := time.Now()
	host(t, "cp", "-a", cached+"/.", root)
	t.Logf("copied %s in %v", cached, time.Since(began).Round(time.Millisecond))
	return root
}

func cachedDebian(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = "/var/cache"
	}
	dir := filepath.Join(cache, "quotad-test")
	name := fmt.Sprintf("%s-%.6x", suite, sha256.Sum256([]byte(packages)))
	cached := filepath.Join(dir, name)
	if _, err := os.Stat(cached); err == nil {
		return cached
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	build, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(build)
	host(t, "debootstrap", "--variant=minbase", "--include="+packages, suite, build)
	host(t, "rm", "-rf", build+"/var/cache/apt", build+"/var/lib/apt/lists", build+"/usr/share/doc", build+"/usr/share/locale")
	host(t, "chmod", "755", build)
	// Half a root would be taken for a whole one; that of another test is as good.
	if err := os.Rename(build, cached); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	t.Logf("made %s in %v", cached, time.Since(began).Round(time.Second))
	return cached
}

// host runs a command on the host.
func host(t *testing.T, name string, args ...string) {
	t.Helper()
	if output, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, tail(string(output)))
	}
}

// tail is the end of a long output.
func tail(output string) string {
	const most = 3000
	return output[max(0, len(output)-most):]
}
