package api

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// The release and the commit of a package: go build -ldflags "-X
// quotad/quota/api.release=1.2.3 -X quotad/quota/api.commit=88fdd0b12345".
var release, commit string

// BuildVersion returns the version of this program, and its commit if the build knows it.
func BuildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(release, "(unknown)")
	}
	return describe(release, commit, info)
}

func describe(release, commit string, info *debug.BuildInfo) string {
	version := cmp.Or(release, info.Main.Version, "(unknown)")
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && commit == "" {
			commit = setting.Value[:min(12, len(setting.Value))]
		}
	}
	if commit == "" || strings.Contains(version, commit) { // go's own versions hold it
		return version
	}
	return version + " (commit " + commit + ")"
}
