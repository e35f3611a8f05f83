package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quotad/jobs"
)

// What a user cannot execute is said by the pass, with what is closed, and to whom.
func TestProgramsOutOfReach(t *testing.T) {
	u, err := LookupUser("nobody")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	root := filepath.Dir(programForAll(t))
	for _, dir := range []string{"open", "closed", "closed/deep", "group"} {
		must(t, os.Mkdir(filepath.Join(root, dir), 0o755))
	}
	file := func(name, text string, mode os.FileMode) {
		path := filepath.Join(root, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		must(t, os.Chmod(path, mode))
	}
	const script = "#!/bin/sh\n"
	file("open/good", script, 0o755)
	file("closed/deep/good", script, 0o755)
	file("open/plain", script, 0o644)
	file("open/owned", script, 0o750)
	file("open/lost", "#!/no/such/php -q\n", 0o755)
	file("open/windows", "#!/bin/sh\r\n", 0o755)
	file("group/good", script, 0o755)
	must(t, os.Symlink(root+"/closed/deep/good", root+"/open/link"))
	must(t, os.Chmod(root+"/closed", 0o750))
	must(t, os.Chmod(root+"/group", 0o750))
	must(t, os.Chown(root+"/group", 0, u.GID))
	const enter = "user nobody cannot use ROOT/closed: move the program to where it can, such as /usr/local/bin, and chmod 755 it"
	for name, want := range map[string]string{
		"open/good": "", "group/good": "",
		"closed/deep/good": enter,
		"open/link":        enter,
		"open/plain":       "ROOT/open/plain is not for user nobody to execute: chmod 755 ROOT/open/plain",
		"open/owned":       "ROOT/open/owned is not for user nobody to execute: chmod 755 ROOT/open/owned",
		"open/lost":        `its first line names the interpreter "/no/such/php", which does not exist: install it, or correct the line`,
		"open/windows":     `its first line names the interpreter "/bin/sh\r", which does not exist: install it, or correct the line`,
	} {
		path := filepath.Join(root, name)
		want = strings.ReplaceAll(want, "ROOT", root)
		exit := Launcher{User: u}.Launch(t.Context(), t.Context(), jobs.Command{Args: []string{path}, Env: []string{"PATH=/none"}, Dir: root, Timeout: time.Minute, KillGrace: time.Second}, func(jobs.Line) {})
		if wanted := `cannot start "` + path + `": ` + want; want == "" && exit.Err != nil || want != "" && (exit.Err == nil || exit.Err.Error() != wanted) {
			t.Errorf("a run of %s: got %+v, want %q", name, exit, wanted)
		}
	}
	exit := Launcher{User: u}.Launch(t.Context(), t.Context(), jobs.Command{Args: []string{root + "/open/good"}, Dir: root + "/closed/deep", Timeout: time.Minute, KillGrace: time.Second}, func(jobs.Line) {})
	if want := "its working directory: user nobody cannot enter " + root + "/closed: name a directory that it can, or chmod o+x " + root + "/closed"; exit.Err == nil || !strings.HasSuffix(exit.Err.Error(), want) {
		t.Errorf("in a closed directory: %+v, want %q", exit, want)
	}
}
