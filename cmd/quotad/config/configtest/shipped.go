// Package configtest has the configuration that quotad is shipped with.
package configtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Shipped returns the config.toml of the repository at root as git has it. If you follow
// the README you edit the one in your clone, and the tests do not read that; CI=true says that it
// is not edited. In a tree without git the test is skipped.
func Shipped(tb testing.TB, root string) (text []byte) {
	tb.Helper()
	var err error
	if os.Getenv("CI") == "true" {
		text, err = os.ReadFile(filepath.Join(root, "config.toml"))
	} else if text, err = exec.Command("git", "-C", root, "show", "HEAD:./config.toml").Output(); err != nil {
		tb.Skipf("git does not say how config.toml was shipped, and CI=true is not set: %v", err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return text
}
