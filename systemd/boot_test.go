// Package systemd_test holds the units against systemd.
//
// units_test.go asks systemd's own verifier, and its measure of exposure. TestBoot builds a clone and packages of it, and
// plays testdata/boot.txtar in a Debian that it boots in a container. That needs root and systemd-nspawn, and runs where
// QUOTAD_TEST_BOOT is set.
package systemd_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"quotad/cmd/quotad/config/configtest"
)

// bootVariable asks for a test that takes minutes the first time: it downloads a Debian. A host on which nothing can be
// booted is told of, and the test skipped; with "require" it fails there.
const bootVariable = "QUOTAD_TEST_BOOT"

// chapterTime is how long a chapter may take, or a boot.
const chapterTime = 15 * time.Minute

// What is installed in the root: Debian as small as it boots, a Redis, and the runtimes whose compilers a sandbox could
// break.
const (
	suite    = "bookworm"
	packages = "systemd,systemd-sysv,dbus,procps,curl,redis-server,python3-minimal,nodejs,php-cli"
)

// cannot ends the test because of the host, before quotad has had a part in it.
func cannot(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv(bootVariable) == "require" {
		t.Fatalf(format, args...)
	}
	t.Skipf("NOT TESTED HERE: "+format, args...)
}

func TestBoot(t *testing.T) {
	if os.Getenv(bootVariable) == "" {
		t.Skip("set " + bootVariable + "=1 to boot a machine with systemd-nspawn")
	}
	if os.Geteuid() != 0 {
		cannot(t, "only root can boot a machine")
	}
	for _, program := range []string{"debootstrap", "systemd-nspawn", "nsenter", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			cannot(t, "%v: apt-get install debootstrap systemd-container util-linux", err)
		}
	}
	story, err := txtar.ParseFile("testdata/boot.txtar")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{root: debian(t), source: source(t)}
	for _, file := range story.Files {
		if strings.HasPrefix(file.Name, "/") {
			write(t, filepath.Join(m.root, file.Name), string(file.Data))
		}
	}
	onHost(t, "chmod -R 755 %s/test %s/usr/bin/apt-yes", m.root, m.root)
	for name, text := range map[string]string{
		"install": "systemctl enable --now quotad", "uninstall": "systemctl disable --now quotad", "rest": "userdel quotad",
		"package": "apt install ./quotad_", "purge": "apt purge quotad", "job": "install -m 755 charts.py",
	} {
		commands := strings.NewReplacer("apt ", "apt-yes ", "./quotad_*.deb", "/src/0.0.1/quotad_*.deb").Replace(blockOf(t, "README.md", text))
		write(t, filepath.Join(m.root, "readme", name), commands)
	}
	write(t, filepath.Join(m.root, "readme/first"), blockOf(t, "../README.md", "proxy.upstream"))
	t.Cleanup(func() { m.off(t) })
	if err := m.start(); err != nil {
		cannot(t, "no Debian boots on this host, even without quotad: %v\n%s", err, tail(m.console.String()))
	}
	// It has a sandbox much like ours.
	if output, err := m.try("systemctl is-active redis-server.service || systemctl status --no-pager redis-server.service"); err != nil {
		cannot(t, "no service can be confined on this host, even without quotad:\n%s", output)
	}
	for _, chapter := range story.Files {
		if strings.HasPrefix(chapter.Name, "/") {
			continue
		}
		if !t.Run(chapter.Name, func(t *testing.T) { m.play(t, chapter.Name, string(chapter.Data)) }) {
			t.Fatal("the rest of the story needs this chapter")
		}
	}
}

// A machine is a Debian in a directory, booted in a container of its own processes, users and network.
type machine struct {
	root      string
	source    string    // what is at /src in the machine
	container *exec.Cmd // nil while it is off
	init      string    // the pid of its init on the host
	console   bytes.Buffer
	halted    chan struct{} // closed when it is off again
}

// play runs a chapter, after a reboot if its name says so.
func (m *machine) play(t *testing.T, name, script string) {
	if strings.HasSuffix(name, "booted") {
		m.try("systemctl poweroff")
		select {
		case <-m.halted:
		case <-time.After(chapterTime):
			t.Fatal("the machine does not halt")
		}
		if err := m.start(); err != nil {
			t.Fatal(err)
		}
	}
	if output, err := m.try(". /lib/quotad-test; set -x\n" + script); err != nil {
		journal, _ := m.try("systemctl status --lines=0 quotad.service; journalctl --no-pager --lines=40 --unit=quotad.service --unit=quotad.socket")
		t.Fatalf("%v\n%s\n%s", err, tail(output), journal)
	}
}

// start returns when the machine has started everything that it starts. It is in a namespace of its own, whose end is
// the end of every process in it: of nspawn alone, the container would live on.
func (m *machine) start() error {
	m.container = exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "systemd-nspawn", "--quiet",
		"--directory="+m.root, "--boot", "--register=no", "--keep-unit", "--console=pipe", "--private-network", "--bind="+m.source+":/src")
	m.container.Stdout, m.container.Stderr = &m.console, &m.console
	m.container.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it ends with this process
	m.halted = make(chan struct{})
	started := make(chan error)
	go func() {
		defer close(m.halted)
		runtime.LockOSThread() // the signal comes when the thread ends
		err := m.container.Start()
		started <- err
		if err == nil {
			m.container.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	for tick, late := time.NewTicker(50*time.Millisecond), time.After(chapterTime); ; {
		select {
		case <-m.halted:
			return fmt.Errorf("the container ended: %v", m.container.ProcessState)
		case <-late:
			return fmt.Errorf("it has not started after %v", chapterTime)
		case <-tick.C:
		}
		m.init = child(child(strconv.Itoa(m.container.Process.Pid))) // at first it is one that only prepares
		if state, _ := m.try("systemctl is-system-running"); state == "running" || state == "degraded" {
			return nil
		}
	}
}

// child returns the only child of a process, or "".
func child(pid string) string {
	children, err := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children"))
	if pid == "" || err != nil {
		return ""
	}
	return strings.TrimSpace(string(children))
}

// off ends the machine, whatever it does.
func (m *machine) off(t *testing.T) {
	if m.container != nil {
		m.container.Process.Kill()
		<-m.halted
	}
	if t.Failed() {
		t.Logf("the machine's console:\n%s", tail(m.console.String()))
	}
}

// try runs a shell script as root in the machine.
func (m *machine) try(script string) (output string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), chapterTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "--target="+m.init, "--mount", "--pid", "--uts", "--ipc", "--net", "--", "sh", "-c", script)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "SYSTEMD_PAGER="}
	text, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(text)), err
}

// debian returns a directory that holds a Debian of the test's own. The first test on a host downloads it.
func debian(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = "/var/cache"
	}
	cached := filepath.Join(cache, "quotad-test", fmt.Sprintf("%s-%.6x", suite, sha256.Sum256([]byte(packages))))
	if _, err := os.Stat(cached); err != nil {
		build, err := os.MkdirTemp(cache, "debian")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(build)
		fetch := exec.Command("debootstrap", "--variant=minbase", "--include="+packages, suite, build)
		if output, err := fetch.CombinedOutput(); err != nil {
			cannot(t, "no Debian can be downloaded, or unpacked: %v\n%s", err, tail(string(output)))
		}
		// Half a root would be taken for a whole one.
		onHost(t, "chmod 755 %[1]s && mkdir -p %[2]s && mv %[1]s %[3]s", build, filepath.Dir(cached), cached)
	}
	root := filepath.Join(t.TempDir(), "root")
	onHost(t, "cp -a %s %s", cached, root)
	return root
}

// source returns a directory with what a clone of the repository holds after go build, as far as the README's commands
// ask for it, and packages of two versions.
func source(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	onHost(t, "chmod 755 %[1]s && (cd .. && go build -o %[1]s/bin/ ./cmd/...) && cp -r ../systemd %[1]s", dir)
	write(t, filepath.Join(dir, "config.toml"), string(configtest.Shipped(t, "..")))
	nfpm := regexp.MustCompile(`(?m)^nfpm=(.+)$`).FindStringSubmatch(read(t, "package"))
	if nfpm == nil {
		t.Fatal("systemd/package does not name its nfpm")
	}
	if output, err := exec.Command("go", "run", nfpm[1], "--version").CombinedOutput(); err != nil {
		cannot(t, "nfpm, which makes the packages, cannot be had: %v\n%s", err, tail(string(output)))
	}
	for _, version := range []string{"0.0.1", "0.0.2"} {
		onHost(t, "VERSION=%[1]s ARCHES=%[2]s ./package %[3]s/%[1]s", version, runtime.GOARCH, dir)
	}
	return dir
}

// onHost runs a command on the host.
func onHost(t *testing.T, format string, args ...any) {
	t.Helper()
	if output, err := exec.Command("sh", "-c", fmt.Sprintf(format, args...)).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, tail(string(output)))
	}
}

// blockOf returns the only block of a page that holds a text.
func blockOf(t *testing.T, page, text string) string {
	t.Helper()
	var found []string
	// Every other part between the fences is a block, with its language ahead.
	for i, part := range strings.Split(read(t, page), "```") {
		if _, block, ok := strings.Cut(part, "\n"); ok && i%2 == 1 && strings.Contains(block, text) {
			found = append(found, block)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d blocks of %s hold %q", len(found), page, text)
	}
	return found[0]
}

// tail is the end of a long output.
func tail(output string) string { return output[max(0, len(output)-3000):] }
