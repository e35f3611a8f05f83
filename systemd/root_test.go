package systemd_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// What is installed in the root: Debian as small as it boots, a Redis, and the
// runtimes whose compilers a sandbox could break.
const (
	suite    = "bookworm"
	packages = "systemd,systemd-sysv,dbus,procps,curl,redis-server,python3-minimal,nodejs,php-cli"
)

// fetchTime is how long the download may take.
const fetchTime = 4 * time.Minute

// debian returns a directory that holds a Debian of the test's own. The first
// test on a host downloads it; the later ones copy it.
func debian(t *testing.T) string {
	t.Helper()
	cached := cachedDebian(t)
	dir := ownDir(t, filepath.Dir(cached)) // with the lock that nspawn puts beside the root
	root, began := filepath.Join(dir, "root"), time.Now()
	host(t, "cp", "-a", cached, root)
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
	build := filepath.Join(ownDir(t, dir), "root")
	fetch(t, build)
	// Half a root would be taken for a whole one; that of another test is as good.
	if err := os.Rename(build, cached); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	return cached
}

// ownDir returns a new directory in the cache, which is gone after the test. It is locked while the test runs: those
// that are not are of tests that were killed, and are removed.
func ownDir(t *testing.T, cache string) string {
	t.Helper()
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	defer lock(t, cache, 0).Close()                            // against a test that would remove what is not locked yet
	former, _ := filepath.Glob(filepath.Join(cache, "test-*")) // the pattern is good
	for _, dir := range former {
		if free := lock(t, dir, syscall.LOCK_NB); free != nil {
			os.RemoveAll(dir)
			free.Close()
		}
	}
	dir, err := os.MkdirTemp(cache, "test-")
	if err != nil {
		t.Fatal(err)
	}
	held := lock(t, dir, 0)
	t.Cleanup(func() {
		os.RemoveAll(dir)
		held.Close()
	})
	return dir
}

// lock locks a directory until the file that it returns is closed, or this process ends. With LOCK_NB it returns nil
// where another one has the lock.
func lock(t *testing.T, dir string, how int) *os.File {
	t.Helper()
	file, err := os.Open(dir)
	if err == nil {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|how)
	}
	if err == syscall.EWOULDBLOCK {
		file.Close()
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// fetch downloads a Debian to a directory.
func fetch(t *testing.T, dir string) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), fetchTime)
	defer cancel()
	output, err := alone(ctx, "debootstrap", "--variant=minbase", "--include="+packages, suite, dir).CombinedOutput()
	if err != nil {
		cannot(t, "no Debian can be downloaded, or unpacked: %v after %v\n%s", err, time.Since(began).Round(time.Second), tail(string(output)))
	}
	host(t, "rm", "-rf", dir+"/var/cache/apt", dir+"/var/lib/apt/lists", dir+"/usr/share/doc", dir+"/usr/share/locale")
	host(t, "chmod", "755", dir)
	t.Logf("downloaded a Debian in %v", time.Since(began).Round(time.Second))
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
