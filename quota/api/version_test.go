package api

import (
	"runtime/debug"
	"testing"
)

func TestVersionTellsTheCommit(t *testing.T) {
	commit := []debug.BuildSetting{{Key: "vcs.time", Value: "2026-11-22T10:35:21Z"}, {Key: "vcs.revision", Value: "88fdd0b123456789"}}
	for _, row := range []struct {
		name, release, commit, version string
		settings                       []debug.BuildSetting
		want                           string
	}{
		{"a package", "1.2.3", "", "v0.0.0-20261122103521-88fdd0b12345", commit, "1.2.3 (commit 88fdd0b12345)"},
		{"a clone", "", "", "v0.0.0-20261122103521-88fdd0b12345+dirty", commit, "v0.0.0-20261122103521-88fdd0b12345+dirty"},
		{"a build without a version", "", "", "(devel)", commit, "(devel) (commit 88fdd0b12345)"},
		{"a package of a worktree", "1.2.3", "88fdd0b12345", "(devel)", nil, "1.2.3 (commit 88fdd0b12345)"},
		{"a build without a clone", "", "", "(devel)", nil, "(devel)"},
		{"nothing is known", "", "", "", nil, "(unknown)"},
	} {
		if got := describe(row.release, row.commit, &debug.BuildInfo{Main: debug.Module{Version: row.version}, Settings: row.settings}); got != row.want {
			t.Errorf("%s: got %q, want %q", row.name, got, row.want)
		}
	}
}
