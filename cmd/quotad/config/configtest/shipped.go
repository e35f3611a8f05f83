// Package configtest has the configuration that quotad is shipped with.
package configtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Variable is the environment variable that has tests read config.toml as it is in the
// tree, which "tree" says. CI sets it, because the file is not edited there.
const Variable = "QUOTAD_TEST_SHIPPED"

// Shipped returns the config.toml of the repository at root as git has it. If you follow
// the README you edit the one in your clone, and the tests do not read that. In a tree
// without git the test is skipped.
func Shipped(tb testing.TB, root string) (text []byte) {
	tb.Helper()
	var err error
	if os.Getenv(Variable) == "tree" {
		text, err = os.ReadFile(filepath.Join(root, "config.toml"))
	} else if text, err = exec.Command("git", "-C", root, "show", "HEAD:./config.toml").Output(); err != nil {
		tb.Skipf("git does not say how config.toml was shipped, and %s=tree is not set: %v", Variable, err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return text
}
