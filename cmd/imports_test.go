// Package cmd holds the programs. Its test keeps the map of the repository: which
// package may import which, and which one binds which module.
package cmd

//ci:norace

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// packages are all of ours: what each imports of ours, and the modules that
// it, and nobody else, binds. Modules that only its tests import are in tests.
var packages = []struct {
	path    string
	imports string
	modules string
}{
	// The domain: the standard library, and each other downwards.
	{"lua", "", ""},
	{"regions", "", ""},
	{"quota", "", ""},
	{"jobs", "quota regions", ""},

	// What binds the domain to a technology.
	{"quota/api", "quota", ""},
	{"quota/middleware", "quota quota/api", ""},
	{"quota/server", "quota quota/api quota/clientlimit quota/upstream", ""},
	{"quota/proxy", "quota quota/api quota/server quota/upstream", ""},
	{"quota/server/servertest", "quota quota/api quota/ledgertest quota/server", ""},
	{"quota/slidinglog", "lua quota quota/journal", "github.com/yuin/gopher-lua"},
	{"quota/upstream", "quota", ""},
	{"quota/clientlimit", "quota", ""},
	{"quota/journal", "", ""},
	{"quota/redisledger", "quota quota/api quota/clientlimit quota/slidinglog lua", "github.com/redis/go-redis/v9"},
	{"quota/ledgertest", "quota quota/clientlimit quota/seedtest", ""},
	{"quota/seedtest", "", ""},
	{"quota/redisledger/redistest", "", ""},
	{"jobs/plan", "jobs quota", ""},
	{"jobs/api", "jobs jobs/plan quota quota/api regions", ""},
	{"jobs/server", "jobs jobs/api jobs/plan quota quota/api quota/server regions", ""},
	{"jobs/process", "jobs regions", "golang.org/x/sys"},
	{"jobs/process/processtest", "", "golang.org/x/sys"},
	{"jobs/scheduler", "jobs regions", "github.com/go-co-op/gocron/v2"},

	// The programs, which draw it all together; "all" is everything above.
	{"cmd", "", ""},
	{"cmd/manual", "", ""},
	{"cmd/quotad", "all cmd/manual cmd/quotad/config cmd/quotad/metrics cmd/quotad/notify cmd/quotad/trouble",
		"github.com/rs/zerolog github.com/coreos/go-systemd/v22 golang.org/x/term golang.org/x/sys"},
	{"cmd/quotad/metrics", "all cmd/quotad/config cmd/quotad/trouble", "github.com/prometheus/client_golang github.com/prometheus/client_model"},
	{"cmd/quotad/notify", "all cmd/quotad/config cmd/quotad/trouble", ""},
	{"cmd/quotad/trouble", "jobs quota", ""},
	{"cmd/quotad/config", "all cmd/manual", "github.com/BurntSushi/toml"},
	{"cmd/quotad/config/configtest", "", ""},
	{"cmd/quotactl", "all cmd/manual cmd/quotactl/page cmd/quotactl/wording", "github.com/spf13/cobra"},
	{"cmd/quotactl/page", "cmd/quotactl/wording jobs jobs/api jobs/plan quota quota/api regions", ""},
	{"cmd/quotactl/wording", "jobs jobs/api jobs/plan quota quota/api regions", "golang.org/x/term golang.org/x/sys"},
	{"cmd/ytfetch", "all cmd/manual cmd/ytfetch/upstream", ""},
	{"cmd/ytsearch", "quota quota/api cmd/manual", "github.com/ncruces/go-sqlite3"},
	{"cmd/ytfetch/upstream", "", ""},
	{"systemd", "", ""}, // units, and the tests of them
}

// tests is what tests may import beside what their package may.
const tests = "github.com/chromedp/chromedp github.com/chromedp/cdproto github.com/rogpeppe/go-internal pgregory.net/rapid github.com/prometheus/client_golang github.com/prometheus/common github.com/ncruces/go-sqlite3 github.com/santhosh-tekuri/jsonschema"

// topLevel is everything that may stand there, dotfiles aside.
const topLevel = "README.md cmd config.toml go.mod go.sum jobs lua quota regions systemd"

// module begins the path of each package. The command of systemd/README.md that renames it finds it here, too.
var module = strings.TrimSuffix("quotad/cmd", "cmd")

func TestImports(t *testing.T) {
	for _, p := range listPackages(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		t.Run(path, func(t *testing.T) {
			row := slices.IndexFunc(packages, func(row struct{ path, imports, modules string }) bool { return row.path == path })
			if row < 0 {
				t.Fatal("the package has no row in the list of packages")
			}
			imports, modules := strings.Fields(packages[row].imports), strings.Fields(packages[row].modules)
			for _, imported := range p.Imports {
				check(t, imported, imports, modules)
			}
			modules = append(modules, strings.Fields(tests)...)
			for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
				if !strings.HasPrefix(imported, module) { // a test may use what it likes of ours
					check(t, imported, nil, modules)
				}
			}
		})
	}
}

// Tests that start processes end them in any case, but where each ends by itself.
func TestProcessesEndWithTheirTests(t *testing.T) {
	const brief = "cmd cmd/quotad/config jobs/scheduler quota/api quota/slidinglog"
	starters := []string{"os/exec", module + "jobs/process", module + "quota/redisledger/redistest"}
	for _, p := range listPackages(t) {
		path, imports := strings.TrimPrefix(p.ImportPath, module), slices.Concat(p.TestImports, p.XTestImports)
		starts := slices.ContainsFunc(imports, func(imported string) bool { return slices.Contains(starters, imported) })
		if starts && !slices.Contains(imports, module+"jobs/process/processtest") && path != "jobs/process/processtest" && !slices.Contains(strings.Fields(brief), path) {
			t.Errorf("the tests of %s start processes: their TestMain wants processtest.Tests", path)
		}
	}
}

// check fails the test unless the imported package is of the standard library,
// one of our own packages listed, or part of a module listed.
func check(t *testing.T, imported string, own, modules []string) {
	t.Helper()
	if name, ours := strings.CutPrefix(imported, module); ours {
		above := slices.Contains(own, "all") && !strings.HasPrefix(name, "cmd/")
		if !above && !slices.Contains(own, name) {
			t.Errorf("imports %s: that is no arrow of the design", imported)
		}
		return
	}
	host, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(host, ".") {
		return
	}
	within := func(module string) bool { return imported == module || strings.HasPrefix(imported, module+"/") }
	if !slices.ContainsFunc(modules, within) {
		t.Errorf("imports %s, which it does not bind", imported)
	}
}

// What a job links by importing a client, and the programs that only ask, hold no
// server, no ledger and no module that these bind.
func TestClientsLinkNoServer(t *testing.T) {
	for _, client := range []struct {
		path    string
		ours    string // all of ours that it links
		modules string // and of others
	}{
		{"quota/api", "quota quota/api", ""},
		{"quota/middleware", "quota quota/api quota/clientlimit quota/middleware", ""},
		{"jobs/api", "jobs jobs/api jobs/plan quota quota/api quota/slidinglog regions", ""},
		{"cmd/ytfetch", "cmd/manual cmd/ytfetch cmd/ytfetch/upstream quota quota/api", ""},
		{"cmd/ytsearch", "cmd/manual cmd/ytsearch quota quota/api", "github.com/ncruces golang.org/x"},
		{"cmd/quotactl", "cmd/manual cmd/quotactl cmd/quotactl/page cmd/quotactl/wording jobs jobs/api jobs/plan quota quota/api quota/slidinglog quota/upstream regions", "github.com/spf13 golang.org/x"},
	} {
		t.Run(client.path, func(t *testing.T) {
			list := goList(t, "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./"+client.path)
			for linked := range strings.FieldsSeq(list) {
				ours, isOurs := strings.CutPrefix(linked, module)
				within := func(module string) bool { return strings.HasPrefix(linked, module+"/") }
				if isOurs && !slices.Contains(strings.Fields(client.ours), ours) || !isOurs && !slices.ContainsFunc(strings.Fields(client.modules), within) {
					t.Errorf("links %s", linked)
				}
			}
		})
	}
}

// A module is imported by one package: the rows themselves must not say otherwise.
func TestEachModuleIsBoundOnce(t *testing.T) {
	const shared = "golang.org/x/term golang.org/x/sys" // terminals and the kernel are everybody's
	binder := map[string]string{}
	for _, row := range packages {
		for _, m := range strings.Fields(row.modules) {
			if binder[m] != "" && !slices.Contains(strings.Fields(shared), m) {
				t.Errorf("%s is bound by %s and by %s", m, binder[m], row.path)
			}
			binder[m] = row.path
		}
	}
}

// What a user has put beside config.toml, git does not know.
func TestTopLevel(t *testing.T) {
	entries, err := os.ReadDir("..")
	must(t, err)
	tree, err := exec.Command("git", "-C", "..", "ls-tree", "--name-only", "HEAD:./").Output()
	if err != nil {
		t.Skipf("only git knows what belongs to the repository: %v", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		known := strings.HasPrefix(name, ".") || slices.Contains(strings.Fields(topLevel), name)
		if !known && slices.Contains(strings.Split(string(tree), "\n"), name) {
			t.Errorf("%s stands at the top level: everything has its place below %s", name, topLevel)
		}
	}
}

// A listing is what go list says of a package.
type listing struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func listPackages(t *testing.T) []listing {
	t.Helper()
	output := goList(t, "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	var list []listing
	for decoder := json.NewDecoder(strings.NewReader(output)); ; {
		var p listing
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		list = append(list, p)
	}
}

func goList(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.Command("go", append([]string{"list"}, args...)...)
	command.Dir = ".."
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return string(output)
}
