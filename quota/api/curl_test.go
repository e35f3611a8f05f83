package api_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"quotad/quota/server/servertest"
)

// curl runs the README's command line and returns its exit code and output.
func curl(t *testing.T, socket string, args ...string) (int, string) {
	t.Helper()
	args = append([]string{"-sS", "--fail-with-body", "--max-time", "5", "--unix-socket", socket}, args...)
	out, err := exec.Command("curl", args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), string(out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, string(out)
}

func TestCurl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	h := servertest.Start(t, nil)
	h.Tokens.Issue("secret", "fetch", "US", "other")
	acquire := []string{"-H", "Authorization: Bearer secret", "http://quotad/v1/acquire", "-d", "operation=get"}

	if exit, out := curl(t, h.Socket, append(acquire, "-d", "request_id=page-1")...); exit != 0 || !strings.HasPrefix(out, `{"granted":true`) {
		t.Errorf("granted: exit %d, %s", exit, out)
	}
	if exit, out := curl(t, h.Socket, append(acquire, "-d", "count=2")...); exit != 22 || !strings.Contains(out, `"reason":"limit_exceeded"`) {
		t.Errorf("denied: exit %d, %s, want 22 with the body", exit, out)
	}
	if exit, _ := curl(t, filepath.Join(servertest.ShortDir(t), "none"), acquire...); exit != 7 {
		t.Errorf("no daemon: exit %d, want 7", exit)
	}
	if exit, out := curl(t, h.Socket, "http://v1/acquire", "-d", "operation=get"); exit != 22 || !strings.Contains(out, "http://quotad/v1/acquire") {
		t.Errorf("host forgotten: exit %d, %s, want 22 and the cure", exit, out)
	}
	if exit, out := curl(t, h.Socket, "http://quotad/v1/acquire", "-d", strings.Repeat("x", 100<<10)); exit != 22 || !strings.Contains(out, `"status":413`) {
		t.Errorf("a large body: exit %d, %s, want 413", exit, out)
	}
	exit, out := curl(t, h.Socket, "-H", "Expect: 100-continue", "http://quotad/v1/acquire", "-d", strings.Repeat("x", 100<<10))
	if exit != 22 || !strings.Contains(out, `"status":413`) {
		t.Errorf("a large body that waits to be asked for: exit %d, %s, want 413", exit, out)
	}
}
