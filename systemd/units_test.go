package systemd_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// programs is where the units expect what is installed.
const programs = "/usr/local/bin/"

// The most that systemd-analyze security may find, in tenths, of the units and with each
// drop-in, every line of which applies.
var exposure = map[string]string{"": "24", "daemon-user.conf": "15", "jobs.conf": "24", "redis-password.conf": "24"}

func TestUnitsAreVerified(t *testing.T) {
	for _, dropIns := range [][]string{nil, {"redis-password.conf", "jobs.conf", "daemon-user.conf"}} {
		dir := installUnits(t, dropIns...)
		service := filepath.Join(dir, "quotad.service")
		if output, err := analyze(t, "verify", service, filepath.Join(dir, "quotad.socket")); err != nil || output != "" {
			t.Errorf("with %v: %v\n%s", dropIns, err, output)
		}
		write(t, service, strings.Replace(read(t, service), "KillMode=mixed", "KillMode=mixd", 1))
		if output, _ := analyze(t, "verify", service); !strings.Contains(output, "quotad.service") {
			t.Errorf("the verifier does not object to a mistake: %q", output)
		}
	}
}

func TestServiceIsLittleExposed(t *testing.T) {
	for dropIn, most := range exposure {
		var dropIns []string
		if dropIn != "" {
			dropIns = []string{dropIn}
		}
		service := filepath.Join(installUnits(t, dropIns...), "quotad.service")
		if output, err := analyze(t, "security", "--no-pager", "--offline=true", "--threshold="+most, service); err != nil {
			t.Errorf("%s: %v\n%s", dropIn, err, output)
		}
	}
}

// installUnits copies the units and drop-ins, every line of which applies, to a
// directory where what they start exists.
func installUnits(t *testing.T, dropIns ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, unit := range []string{"quotad.service", "quotad.socket", "quotad-stop.target"} {
		write(t, filepath.Join(dir, unit), strings.ReplaceAll(read(t, unit), programs, dir+"/"))
	}
	for _, name := range dropIns {
		write(t, filepath.Join(dir, "quotad.service.d", name), applied(read(t, filepath.Join("drop-ins", name))))
	}
	for _, program := range []string{"quotad", "quotactl"} {
		write(t, filepath.Join(dir, program), "")
		if err := os.Chmod(filepath.Join(dir, program), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// applied returns a drop-in without the # in front of its settings.
func applied(dropIn string) string {
	return regexp.MustCompile(`(?m)^#([A-Z]\w+=)`).ReplaceAllString(dropIn, "$1")
}

func analyze(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	path, err := exec.LookPath("systemd-analyze")
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("systemd-analyze is not installed here")
	}
	text, err := exec.Command(path, args...).CombinedOutput()
	return string(text), err
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// write makes a file, and its directory.
func write(t *testing.T, file, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}
