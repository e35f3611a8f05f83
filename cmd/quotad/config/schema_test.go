package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// By the schema every example is good: the shipped file, those of all pages, of the reference, and those of the scripts that
// quotad takes.
func TestSchemaTakesEachExample(t *testing.T) {
	s := compiled(t)
	examples := map[string]string{"config.toml": read(t, "../../../config.toml")}
	block := regexp.MustCompile("(?ms)^```toml\n(.*?)^```")
	for _, pattern := range []string{"../../../README.md", "../*.md", "../../../quota/api/*.md", "../../../systemd/*.md", "../testdata/*.txtar"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range names {
			for _, found := range block.FindAllStringSubmatch(read(t, name), -1) {
				examples[name+": "+strings.SplitN(found[1], "\n", 2)[0]] = found[1]
			}
			if strings.HasSuffix(name, ".txtar") {
				for _, file := range txtar.Parse([]byte(read(t, name))).Files {
					if file.Name == "config.toml" {
						examples[name] = regexp.MustCompile(`(?m)^\$\w+$`).ReplaceAllString(string(file.Data), "") // $BUDGET
					}
				}
			}
		}
	}
	for name, text := range examples {
		var values map[string]any
		if _, err := toml.Decode(text, &values); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if err := s.Validate(values); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(examples) < 25 {
		t.Errorf("there are %d examples only", len(examples))
	}
}

func TestSchemaFindsMistakes(t *testing.T) {
	s := compiled(t)
	for _, text := range []string{
		"[ledger]\nbackends = 'redis'", "[ledger]\nbackend = 'sqlite'", "[credentials.a.limits.daily]\nunits = '10'", "[jobs.a]\nregions = 'US'",
		"[jobs.a]\nrun_at_start = 1", "[on_event]\nkind = ['x']", "[credentials.a.limits.d]\nwindow = { calendar = 'week' }", "[credentials.a.on_outage]\nlist = 'ajar'",
	} {
		var values map[string]any
		if _, err := toml.Decode(text, &values); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if s.Validate(values) == nil {
			t.Errorf("%q is no mistake", text)
		}
	}
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(read(t, "quotad.schema.json")))
	must(t, err)
	c := jsonschema.NewCompiler()
	must(t, c.AddResource("file:///quotad.json", value))
	s, err := c.Compile("file:///quotad.json") // a bare name would be in this directory, whose path may have blanks
	must(t, err)
	return s
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	return string(text)
}
