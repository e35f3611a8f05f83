package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestResolve(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"bin/dir", "bin/shadow", "path", "etc"} {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	for _, name := range strings.Fields("bin/ytfetch* bin/notes bin/plain path/ytfetch* path/curl* path/shadow* path/plain* etc/fetch.sh* etc/data") {
		name, isProgram := strings.CutSuffix(name, "*")
		mode := map[bool]os.FileMode{false: 0o644, true: 0o755}[isProgram]
		must(t, os.WriteFile(filepath.Join(root, name), nil, mode))
	}
	t.Setenv("PATH", "relative:"+root+"/none:"+root+"/bin:"+root+"/path:"+root+"/path")
	for _, row := range []struct {
		name, command string
		want          string // below root
		wrong         []string
	}{
		{name: "beside quotad first", command: "ytfetch", want: "/bin/ytfetch"},
		{name: "then in PATH", command: "curl", want: "/path/curl"},
		{name: "a directory hides nothing", command: "shadow", want: "/path/shadow"},
		{name: "nor does a file that is no program", command: "plain", want: "/path/plain"},
		{name: "beside the configuration", command: "./fetch.sh", want: "/etc/fetch.sh"},
		{name: "no name", command: "", wrong: []string{"names no program"}},
		{name: "nowhere", command: "wget", wrong: []string{`"wget"`, "not found", "directory of quotad", ": " + root + "/bin, " + root + "/none, " + root + "/path"}},
		{name: "not below the configuration", command: "./wget", wrong: []string{"not found", root + "/etc/wget"}},
		{name: "not executable", command: "notes", wrong: []string{root + "/bin/notes", "is not for user ", "to execute: chmod 755 "}},
		{name: "a directory", command: "dir", wrong: []string{root + "/bin/dir", "is a directory"}},
		{name: "a device", command: "/dev/null", wrong: []string{"is not a file"}},
		{name: "a file as directory", command: "./data/x", wrong: []string{"etc/data/x", "not a directory"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := Resolve(row.command, root+"/bin", root+"/etc")
			if len(row.wrong) == 0 && (err != nil || got != root+row.want) {
				t.Errorf("got %q, %v, want %q", got, err, root+row.want)
			}
			for _, part := range row.wrong {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("got %q, %v, want an error with %q", got, err, part)
				}
			}
		})
	}
	t.Chdir(root)
	if got, err := Resolve("./fetch.sh", "bin", "etc"); err != nil || got != root+"/etc/fetch.sh" {
		t.Errorf("from a relative directory: got %q, %v, want an absolute path", got, err)
	}
}
