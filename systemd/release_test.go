package systemd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRelease makes a release of a tag in a clone of this tree, after each mistake that it names. With bootVariable, which
// pays for the download of nfpm too, it makes the packages, twice.
func TestRelease(t *testing.T) {
	clone := filepath.Join(t.TempDir(), "a clone")
	run := func(name string, args ...string) (output string, err error) {
		cmd := exec.Command(name, args...)
		cmd.Dir = clone
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=quotad", "GIT_AUTHOR_EMAIL=quotad@quotad.invalid",
			"GIT_COMMITTER_NAME=quotad", "GIT_COMMITTER_EMAIL=quotad@quotad.invalid")
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	must := func(name string, args ...string) string {
		t.Helper()
		output, err := run(name, args...)
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, output)
		}
		return output
	}
	if _, err := os.Stat("../.git"); err != nil {
		t.Skip("this tree is no clone: a release is of a tag")
	}
	host(t, "git", "clone", "--quiet", "..", clone)
	host(t, "cp", "-r", ".", clone+"/systemd") // what is not committed here
	changelog := filepath.Join(clone, "systemd/changelog")
	former := read(t, changelog)
	entry := "quotad (9.8.7~rc1) UNRELEASED; urgency=medium\n\n  * One thing, which\n    takes two lines.\n  * Another.\n\n -- quotad <noreply@quotad.invalid>  Fri, 01 Jan 2100 00:00:00 +0000\n\n"
	for _, step := range []struct {
		name  string
		means func()
		says  string
	}{
		{"no tag", func() {
			must("git", "add", "--all")
			must("git", "commit", "--quiet", "--allow-empty", "--message", "Try")
		}, "has no tag of a version"},
		{"a tag without an entry", func() { must("git", "tag", "v9.8.7-rc1") }, "has no entry of 9.8.7~rc1"},
		{"a file that is not in the tag", func() { write(t, changelog, entry+former) }, "the tree is not what v9.8.7-rc1 names"},
		{"an entry that is not released", func() {
			must("git", "commit", "--quiet", "--all", "--message", "Release")
			must("git", "tag", "--force", "v9.8.7-rc1")
		}, "is UNRELEASED"},
		{"a directory with other files", func() {
			write(t, changelog, strings.Replace(entry, "UNRELEASED", "unstable", 1)+former)
			must("git", "commit", "--quiet", "--all", "--message", "Release")
			must("git", "tag", "--force", "v9.8.7-rc1")
			write(t, filepath.Join(clone, "dist/v9.8.7-rc1/other"), "")
		}, "is not empty"},
	} {
		step.means()
		if output, err := run("systemd/release"); err == nil || !strings.Contains(output, step.says) {
			t.Errorf("%s: %v, want %q:\n%s", step.name, err, step.says, output)
		}
	}
	if output, err := run("bash", "-euc", blockOf(t, "README.md", "go mod edit")+"gofmt -l .; go list -deps -test ./..."); err != nil || strings.Contains(output, "\nquotad/") || strings.Contains(output, ".go\n") {
		t.Errorf("with another path of the module: %v\n%s", err, tail(output))
	}
	must("git", "checkout", "--quiet", "--force", ".")
	if os.Getenv(bootVariable) == "" {
		t.Skip("set " + bootVariable + "=1 to make the packages")
	}
	for _, dir := range []string{"one", "two"} {
		t.Log(must("systemd/release", "dist/"+dir))
	}
	must("diff", "-r", "dist/one", "dist/two")
	must("sh", "-c", "cd dist/one && "+checksums(t))
	if got, want := read(t, filepath.Join(clone, "dist/one/NOTES.md")), "# quotad 9.8.7~rc1\n\n* One thing, which\n  takes two lines.\n* Another.\n\n"; got != want {
		t.Errorf("the notes are %q, want %q", got, want)
	}
	notices := read(t, filepath.Join(clone, "dist/one/NOTICES"))
	for arch, machine := range map[string]string{"amd64": "x86-64", "arm64": "aarch64"} {
		dir := filepath.Join(clone, "dist", arch)
		must("dpkg-deb", "--extract", filepath.Join(clone, "dist/one/quotad_9.8.7~rc1_"+arch+".deb"), dir)
		if packed := read(t, filepath.Join(dir, "usr/share/doc/quotad/copyright")); packed != notices {
			t.Errorf("%s: the package has other notices", arch)
		}
		for _, program := range []string{"quotad", "quotactl", "ytfetch", "ytsearch"} {
			file := filepath.Join(dir, "usr/bin", program)
			if got := must("file", file); !strings.Contains(got, machine) || !strings.Contains(got, "statically linked") {
				t.Errorf("%s for %s is %s", program, arch, got)
			}
			linked := regexp.MustCompile(`(?m)^\tdep\t(\S+)\t(\S+)`).FindAllStringSubmatch(must("go", "version", "-m", file), -1)
			if len(linked) == 0 {
				t.Errorf("%s names no modules", program)
			}
			for _, module := range linked {
				if !strings.Contains(notices, "\n==== "+module[1]+" "+module[2]+", ") {
					t.Errorf("%s contains %s %s, and the notices have nothing of it", program, module[1], module[2])
				}
			}
		}
	}
}
