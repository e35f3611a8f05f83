package config

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"quotad/quota/redisledger"
	"quotad/quota/server"
)

var update = flag.Bool("update", false, "write REFERENCE.md")

// Each table and each key is explained, and nothing else is.
func TestReferenceExplainsEachKey(t *testing.T) {
	unused := map[string]bool{}
	for path := range explanations() {
		unused[path] = true
	}
	keys := 0
	tables, _ := reference()
	for _, table := range tables {
		delete(unused, table.path)
		if !strings.HasSuffix(table.means, ".") {
			t.Errorf("reference.toml has no sentence for the table [%s]: %q", table.path, table.means)
		}
		for _, k := range table.keys {
			if k.name != "OPERATION" {
				keys++
			}
			path := strings.TrimPrefix(table.path+"."+k.name, ".")
			delete(unused, path)
			if !strings.HasSuffix(k.means, ".") || k.value == "" || k.example == "" {
				t.Errorf("reference.toml lacks something for the key %s: %+v", path, k)
			}
		}
	}
	if len(unused) > 0 {
		t.Errorf("reference.toml explains what is no key: %v", unused)
	}
	if want := 94; keys != want {
		t.Errorf("there are %d keys, not %d", keys, want)
	}
}

// hostSays is what an example may lack on this host.
var hostSays = regexp.MustCompile(`cannot be read|no group|no user|there is no directory|not found`)

// What an example shows may stand at its key.
func TestReferenceExamples(t *testing.T) {
	tables, _ := reference()
	for _, table := range tables {
		for _, k := range table.keys {
			path := strings.TrimPrefix(strings.Replace(table.path, "window", "credentials.NAME.limits.NAME.window", 1)+"."+k.name+" = "+k.example, ".")
			t.Run(path, func(t *testing.T) {
				text := strings.NewReplacer("NAME", "name", "OPERATION", "search").Replace(path)
				if table.path == "window" {
					text = "[credentials.name.limits.name.window]\ncalendar = \"month\"\ntimezone = \"UTC\"\n"
					if k.name == "every" || k.name == "from" {
						text = "[credentials.name.limits.name.window]\nevery = \"1h\"\nfrom = \"2025-01-01T00:00:00Z\"\n"
					}
					text = regexp.MustCompile(`(?m)^`+k.name+` = .*$`).ReplaceAllLiteralString(text, k.name+" = "+k.example)
				}
				d := &document{file: "config.toml", dir: t.TempDir()}
				values, err := d.parse(text)
				must(t, err)
				node{document: d, value: values}.into(&fileTable{})
				for _, wrong := range d.errors {
					if !hostSays.MatchString(wrong.Message) {
						t.Error(wrong)
					}
				}
			})
		}
	}
}

// What is said of an absent key in words is what the code does.
func TestReferenceDefaults(t *testing.T) {
	for key, want := range map[string]string{
		"ledger.redis.key_prefix": fmt.Sprintf("%q", redisledger.DefaultKeyPrefix), "access.admin_group": fmt.Sprintf("%q", server.DefaultAdminGroup),
	} {
		if got := explanations()[key].fallback; got != "default: "+want {
			t.Errorf("%s: got the default %s, want %s", key, got, want)
		}
	}
}

// The page, and the schema that config.toml names for editors, are what quotad prints.
func TestReferencePage(t *testing.T) {
	for file, want := range map[string]string{"../REFERENCE.md": referenceText(), "quotad.schema.json": referenceSchema()} {
		if *update {
			must(t, os.WriteFile(file, []byte(want), 0o644))
		}
		got, err := os.ReadFile(file)
		must(t, err)
		if string(got) != want {
			t.Errorf("%s is not what tables.go and reference.toml say: go test ./cmd/quotad/config -run TestReferencePage -update", file)
		}
	}
}
