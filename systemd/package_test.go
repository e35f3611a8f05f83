package systemd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

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
		if regexp.MustCompile(`(?m)^.{81}`).MatchString(got[3]) {
			t.Errorf("version %s has lines of more than 80 columns", got[1])
		}
		rest, newer = rest[len(got[0]):], date
	}
}

// TestRelease makes a release of a tag in a clone of this tree, after each mistake that it names. With bootVariable, which
// pays for the download of nfpm too, it makes the packages, twice.
func TestRelease(t *testing.T) {
	if _, err := os.Stat("../.git"); err != nil {
		t.Skip("this tree is no clone: a release is of a tag")
	}
	clone := filepath.Join(t.TempDir(), "a clone")
	onHost(t, "git clone --quiet .. %[1]q && cp -r . %[1]q/systemd", clone) // with what is not committed here
	run := func(script string) (output string, err error) {
		cmd := exec.Command("bash", "-euc", script)
		cmd.Dir = clone
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=quotad", "GIT_AUTHOR_EMAIL=quotad@quotad.invalid",
			"GIT_COMMITTER_NAME=quotad", "GIT_COMMITTER_EMAIL=quotad@quotad.invalid")
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	must := func(script string) {
		t.Helper()
		if output, err := run(script); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, tail(output))
		}
	}
	must(`ln -s "$PWD" ../quotad; mkdir ../shop; cd ../shop; go mod init shop
		printf 'package shop\nimport _ "quotad/quota/middleware"\n' >shop.go
		` + blockOf(t, "../cmd/quotad/CLIENTS.md", "go mod edit") + "go list -deps . >/dev/null") // that it compiles, others hold
	entry := "quotad (9.8.7~rc1) UNRELEASED; urgency=medium\n\n  * One thing, which\n    takes two lines.\n\n -- quotad <noreply@quotad.invalid>  Fri, 01 Jan 2100 00:00:00 +0000\n\n"
	write(t, filepath.Join(clone, "entry"), entry)
	const commit = "git add --all && git commit --quiet --allow-empty --message Try && git tag --force v9.8.7-rc1"
	for _, step := range []struct{ name, script, says string }{
		{"no tag", "mv entry .git; git add --all; git commit --quiet --allow-empty --message Try", "has no tag of a version"},
		{"a tag without an entry", commit, "has no entry of 9.8.7~rc1"},
		{"a file that is not in the tag", "cat .git/entry systemd/changelog >.git/new; cp .git/new systemd/changelog", "the tree is not what v9.8.7-rc1 names"},
		{"an entry that is not released", commit, "is UNRELEASED"},
		{"a directory with other files", "sed -i 1s/UNRELEASED/unstable/ systemd/changelog; " + commit + "; mkdir -p dist/v9.8.7-rc1; touch dist/v9.8.7-rc1/other",
			"is not empty"},
	} {
		must(step.script)
		if output, err := run("systemd/release"); err == nil || !strings.Contains(output, step.says) {
			t.Errorf("%s: %v, want %q:\n%s", step.name, err, step.says, output)
		}
	}
	if output, err := run(blockOf(t, "README.md", "go mod edit") + "gofmt -l .; go list -deps -test ./..."); err != nil || strings.Contains(output, "\nquotad/") || strings.Contains(output, ".go\n") {
		t.Errorf("with another path of the module: %v\n%s", err, tail(output))
	}
	if os.Getenv(bootVariable) == "" {
		t.Skip("set " + bootVariable + "=1 to make the packages")
	}
	must("git checkout --quiet --force . && systemd/release dist/one && systemd/release dist/two && diff -r dist/one dist/two")
	must("cd dist/one && sha256sum --check SHA256SUMS && ls quotad_9.8.7~rc1_amd64.deb quotad_9.8.7~rc1_arm64.deb quotad-*.rpm && grep -c '^==== ' NOTICES")
	if got, want := read(t, filepath.Join(clone, "dist/one/NOTES.md")), "# quotad 9.8.7~rc1\n\n* One thing, which\n  takes two lines.\n\n"; got != want {
		t.Errorf("the notes are %q, want %q", got, want)
	}
}
