package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// layout makes files, executable where their name ends in an asterisk, and
// directories where it ends in a slash.
func layout(t *testing.T, names ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range names {
		path := filepath.Join(root, strings.TrimSuffix(name, "*"))
		dir, mode := filepath.Dir(path), os.FileMode(0o644)
		if strings.HasSuffix(name, "/") {
			dir = path
		}
		if strings.HasSuffix(name, "*") {
			mode = 0o755
		}
		must(t, os.MkdirAll(dir, 0o755))
		if dir == path {
			continue
		}
		must(t, os.WriteFile(path, nil, mode))
	}
	return root
}

func TestResolve(t *testing.T) {
	root := layout(t, "bin/ytfetch*", "bin/notes", "bin/dir/", "bin/shadow/", "bin/plain",
		"path/ytfetch*", "path/curl*", "path/shadow*", "path/plain*", "etc/fetch.sh*", "etc/data", "etc/sub/run*")
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
		{name: "below it", command: "sub/run", want: "/etc/sub/run"},
		{name: "above it", command: "../path/curl", want: "/path/curl"},
		{name: "absolute", command: root + "/path/curl", want: "/path/curl"},
		{name: "no name", command: "", wrong: []string{"names no program"}},
		{name: "nowhere", command: "wget", wrong: []string{`"wget"`, "not found", "directory of quotad", ": " + root + "/bin, " + root + "/none, " + root + "/path"}},
		{name: "not below the configuration", command: "./wget", wrong: []string{"not found", root + "/etc/wget"}},
		{name: "not executable", command: "notes", wrong: []string{root + "/bin/notes", "is not for user ", "to execute: chmod 755 "}},
		{name: "a path not executable", command: "./data", wrong: []string{root + "/etc/data", "to execute: chmod 755 "}},
		{name: "a directory", command: "dir", wrong: []string{root + "/bin/dir", "is a directory"}},
		{name: "a path of a directory", command: "./sub", wrong: []string{root + "/etc/sub", "is a directory"}},
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
}

func TestResolveAgainstARelativeDirectory(t *testing.T) {
	t.Chdir(layout(t, "etc/run*"))
	got, err := Resolve("./run", "bin", "etc")
	if err != nil || !filepath.IsAbs(got) || !strings.HasSuffix(got, "/etc/run") {
		t.Errorf("got %q, %v, want an absolute path", got, err)
	}
}
