package systemd_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// errNoNFPM is a host's that cannot reach the module proxy, for one.
var errNoNFPM = errors.New("nfpm, which makes the packages, cannot be had")

// nfpmTime is how long the download and the compilation of nfpm may take: a hundred
// modules, the first time on a host.
const nfpmTime = 5 * time.Minute

// startPackages begins to build, and returns what waits for the end of it.
func startPackages(ctx context.Context, source string) func() error {
	built := make(chan error, 1)
	go func() { built <- buildPackages(ctx, source) }()
	return sync.OnceValue(func() error { return <-built })
}

// buildPackages builds a package of this tree, and the same again as the next version, into
// directories beside the clone that the machine has at /src.
func buildPackages(ctx context.Context, source string) error {
	script, err := os.ReadFile("package")
	if err != nil {
		return err
	}
	nfpm := regexp.MustCompile(`(?m)^nfpm=(.+)$`).FindSubmatch(script)
	if nfpm == nil {
		return errors.New("systemd/package does not name its nfpm")
	}
	first, cancel := context.WithTimeout(ctx, nfpmTime)
	defer cancel()
	if output, err := exec.CommandContext(first, "go", "run", string(nfpm[1]), "--version").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %w\n%s", errNoNFPM, err, tail(string(output)))
	}
	for dir, version := range map[string]string{"0.0.1": "0.0.1", "again": "0.0.1", "0.0.2": "0.0.2"} {
		build := exec.CommandContext(ctx, "./package", filepath.Join(source, dir))
		build.Env = append(os.Environ(), "VERSION="+version, "ARCHES="+runtime.GOARCH)
		if output, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("systemd/package: %w\n%s", err, tail(string(output)))
		}
	}
	return nil
}

// needPackages waits for the packages.
func (m *machine) needPackages(t *testing.T) {
	t.Helper()
	began := time.Now()
	err := m.packages()
	if errors.Is(err, errNoNFPM) {
		cannot(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("waited %v for the packages", time.Since(began).Round(time.Second))
}

// packageConfig is of a host that has no Redis: the ledger is embedded.
const packageConfig = `
[credentials.api]
limits.daily.units = 1_000_000
operations.list = 1
[passes]
drain = "1m"
[jobs.long]
credential = "api"
regions = ["one"]
schedule = "manual"
command = ["/opt/long"]
`

// long is a job that is under way until somebody says so.
const long = `#!/bin/sh
quotactl acquire list || exit
touch begun
until [ -e /var/lib/quotad/data/long/enough ]; do sleep 0.1; done
echo "as it began"
`

const apt = "DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes -o Dpkg::Options::=--force-confold "

// testPackage installs the package as the page begins: everything is in place, and nothing
// is started, by a boot neither, before the example is changed or an administrator starts it.
func testPackage(t *testing.T, m *machine) {
	m.needPackages(t)
	install := fromREADME(t, "apt install ./quotad_")
	install = strings.ReplaceAll(install, "./quotad_*.deb", "/src/0.0.1/quotad_*.deb")
	install = strings.ReplaceAll(install, "apt install", apt+"install")
	if output := m.sh(t, install); !strings.Contains(output, "config.toml is the example: change it, then: systemctl start quotad") {
		t.Errorf("it does not say how to go on:\n%s", output)
	}
	for file, want := range map[string]string{
		"/usr/bin/quotad": "root root 755", "/usr/bin/ytfetch": "root root 755", "/usr/bin/ytsearch": "root root 755",
		"/etc/quotad": "root quotad 750", "/etc/quotad/config.toml": "root quotad 640",
		"/usr/share/man/man1/quotactl.1.gz": "root root 644", "/usr/share/man/man1/ytfetch.1.gz": "root root 644",
		"/usr/share/man/man1/ytsearch.1.gz":    "root root 644",
		"/usr/share/man/man5/quotad.toml.5.gz": "root root 644", "/usr/share/man/man8/quotad.8.gz": "root root 644", "/usr/share/quotad/quotad.schema.json": "root root 644",
		"/usr/share/bash-completion/completions/quotactl": "root root 644", "/usr/share/doc/quotad/changelog.gz": "root root 644",
		"/usr/share/doc/quotad/examples/alerts.yml": "root root 644", "/usr/share/doc/quotad/examples/dashboard.json": "root root 644",
	} {
		if got := m.sh(t, "stat --format='%U %G %a' "+file); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
	if got := m.sh(t, "systemctl is-enabled quotad.service quotad.socket; systemctl is-active quotad.service quotad.socket || true"); got != "enabled\nenabled\ninactive\ninactive" {
		t.Errorf("got %q, want both enabled and neither started", got)
	}
	m.sh(t, "cd /src/0.0.1 && ls quotad_*.deb quotad-*.rpm NOTICES | sort >/tmp/built && sed 's/.*  //' SHA256SUMS | sort | cmp - /tmp/built")
	m.sh(t, "cd /src/0.0.1 && "+checksums(t))
	if got := m.sh(t, "diff /src/0.0.1/SHA256SUMS /src/again/SHA256SUMS || true"); got != "" {
		t.Errorf("two builds of a commit differ:\n%s", got)
	}
	if got := m.sh(t, "grep -c '^==== .*, LICENSE' /usr/share/doc/quotad/copyright"); len(got) < 2 {
		t.Errorf("%s licenses of what is linked are in the package", got)
	}
	if got := m.sh(t, "ls /usr/share/doc/quotad"); !strings.Contains(got, "recipes.md") || !strings.Contains(got, "reference.md") {
		t.Errorf("pages that others link are missing: %s", got)
	}
	if got := m.sh(t, "head -1 /usr/share/doc/quotad/README.md; cd /usr/share/doc/quotad; systemctl show --property=Documentation --value quotad.service quotad.socket | sed -n s,^file:,,p | xargs head -qn1"); got != "# quotad\n# quotad under systemd\n# quotad under systemd" {
		t.Errorf("the first page, and those that units name, begin with %q", got)
	}
	if got := m.sh(t, "zcat /usr/share/doc/quotad/changelog.gz | head -1"); got != "quotad (0.0.1) unstable; urgency=medium" {
		t.Errorf("the changelog begins with %q, want the package's version", got)
	}
	if got := m.sh(t, "quotad --version"); !regexp.MustCompile(`^quotad 0\.0\.1 \(commit [0-9a-f]{12}\)$`).MatchString(got) {
		t.Errorf("got %q, want the package's version and commit", got)
	}
	if output := m.sh(t, "systemd-analyze verify quotad.service quotad.socket"); output != "" {
		t.Errorf("systemd-analyze verify: %s", output)
	}
	const active = "systemctl is-active quotad.service quotad.socket || true"
	m.halt(t)
	m.boot(t)
	if got := m.sh(t, active); got != "inactive\ninactive" {
		t.Errorf("a boot starts the example: %q\n%s", got, m.journal())
	}
	m.sh(t, "systemctl start quotad") // as an administrator
	m.await(t, "quotactl runs trending | grep -q ' done '")
	m.await(t, "quotactl runs discover | grep -q ' done '")
	m.sh(t, "ytsearch /var/lib/quotad/data/trending golden | grep -qi golden")
	testFirstJob(t, m)
	m.write(t, "/etc/quotad/config.toml", packageConfig)
	m.write(t, "/opt/long", long)
	m.sh(t, "chmod 755 /opt/long")
	m.halt(t)
	m.boot(t)
	if got := m.sh(t, active); got != "active\nactive" {
		t.Errorf("a boot does not start what is configured: %q\n%s", got, m.journal())
	}
}

// testFirstJob runs what the page says of the first job, with the configuration of the first page.
func testFirstJob(t *testing.T, m *machine) {
	m.sh(t, "systemctl stop quotad; systemd-run --quiet --unit=sample ytfetch serve --sample")
	m.write(t, "/etc/quotad/config.toml", strings.ReplaceAll(blockOf(t, "../README.md", "proxy.listen"), "./charts.py", "/usr/local/bin/charts.py"))
	m.write(t, "/opt/charts.py", `#!/bin/sh
printf 'url = "%syoutube/v3/videos?part=snippet&chart=mostPopular"\n' "$QUOTAD_PROXY" | curl -sS --fail-with-body -o answer -K -
`) // python3-minimal has no json
	m.write(t, "/opt/youtube.key", "a-key-for-the-sample")
	m.sh(t, strings.Replace(fromREADME(t, "install -m 755 charts.py"), "/src", "/opt", 1))
	m.await(t, "quotactl runs charts | grep -q ' done '")
	m.sh(t, "systemctl stop sample")
}

// checksums returns the command of the README that checks a package.
func checksums(t *testing.T) string {
	t.Helper()
	command := regexp.MustCompile("`(sha256sum [^`]+)`").FindStringSubmatch(read(t, "README.md"))
	if command == nil {
		t.Fatal("the README does not say how to check a package")
	}
	return command[1]
}

// The changelog is in Debian's format, deb-changelog(5), with the newest entry first. If that is not released, the build
// script gives it the version and the date of the package.
func TestChangelog(t *testing.T) {
	entry := regexp.MustCompile(`(?s)^quotad \(([0-9a-z.~]+)\) (\w+); urgency=medium\n\n((?:  \* [^\n]+\n(?:    [^\n]+\n)*)+)\n -- [^\n]+ <[^\n>]+>  ([^\n]+)\n(?:\n|$)`)
	rest, newer := read(t, "changelog"), time.Time{}
	for rest != "" {
		got := entry.FindStringSubmatch(rest)
		if got == nil {
			t.Fatalf("this is no entry of a changelog:\n%s", rest)
		}
		date, err := time.Parse(time.RFC1123Z, got[4])
		if err != nil || !newer.IsZero() && !date.Before(newer) {
			t.Errorf("version %s is of %q, want a date before %v: %v", got[1], got[4], newer, err)
		}
		if want := "0.0." + date.Format("20060102"); strings.HasPrefix(got[1], "0.0.") && got[1] != want {
			t.Errorf("got version %s, want %s", got[1], want)
		}
		if got[2] != "unstable" && (got[2] != "UNRELEASED" || !newer.IsZero()) {
			t.Errorf("version %s is of %s", got[1], got[2])
		}
		for line := range strings.Lines(got[3]) {
			if len(line) > 81 {
				t.Errorf("version %s: longer than 80 columns: %s", got[1], line)
			}
		}
		rest, newer = rest[len(got[0]):], date
	}
}

// testPackageUpgrade upgrades while a run is under way and a client spends: the run ends
// as it began, no call fails, every unit is there.
func testPackageUpgrade(t *testing.T, m *machine) {
	m.needPackages(t)
	m.await(t, "quotactl run long")
	m.await(t, "test -e /var/lib/quotad/data/long/begun")
	before := m.property(t, "MainPID")
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	granted, spent := 0, make(chan struct{})
	go func() {
		defer close(spent)
		for client := m.client(); ctx.Err() == nil; granted++ {
			if err := acquire(client); err != nil {
				t.Errorf("an acquire fails: %v", err)
				return
			}
		}
	}()
	upgraded := make(chan string)
	go func() {
		output, _ := m.try(apt + "install /src/0.0.2/quotad_*.deb")
		upgraded <- output
	}()
	m.await(t, "systemctl show --value --property=SubState quotad.service | grep -q stop")
	m.sh(t, "touch /var/lib/quotad/data/long/enough")
	output := <-upgraded
	stop()
	<-spent
	if got := m.sh(t, "quotactl --version; quotactl -o json"); strings.Count(got, "0.0.2") != 2 || m.property(t, "MainPID") == before {
		t.Errorf("got %s, want that the new quotad runs:\n%s", got, output)
	}
	if got := m.sh(t, "quotactl runs long"); !strings.Contains(got, "ok") {
		t.Errorf("the run did not end as it began:\n%s", got)
	}
	if used := m.used(t); used != int64(granted)+1 {
		t.Errorf("%d units are used after %d grants and the run's own", used, granted)
	}
	if got := m.sh(t, "cat /etc/quotad/config.toml"); got != strings.TrimSpace(packageConfig) {
		t.Errorf("the configuration is another:\n%s", got)
	}
	t.Logf("%d grants over the upgrade", granted)
}

// testPackageRemoval removes, which keeps what was spent and is configured, installs
// again, which goes on with it, and purges.
func testPackageRemoval(t *testing.T, m *machine) {
	m.needPackages(t)
	used := m.used(t)
	m.sh(t, apt+"remove quotad")
	m.sh(t, "test -s /etc/quotad/config.toml && test -d /var/lib/quotad && ! test -e /run/quotad.sock && ! test -e /usr/bin/quotad && ! systemctl is-enabled quotad.service")
	m.sh(t, apt+"install /src/0.0.2/quotad_*.deb")
	m.await(t, "systemctl --quiet is-active quotad.service") // the configuration is not the example
	if got := m.used(t); got != used {
		t.Errorf("%d units are used, want %d as before", got, used)
	}
	m.sh(t, strings.ReplaceAll(fromREADME(t, "apt purge quotad"), "apt purge", apt+"purge"))
	left := m.sh(t, findOurs)
	for _, line := range strings.Split(left, "\n") {
		if !strings.HasPrefix(line, "quotad:x:") && !strings.HasPrefix(line, "quotad-jobs:x:") && !strings.HasPrefix(line, "quota:x:") && !strings.HasPrefix(line, "quotad-admin:x:") {
			t.Errorf("it left %s", line)
		}
	}
	t.Logf("left:\n%s", left)
}
