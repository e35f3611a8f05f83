package metrics

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// The page of quotad explains every metric there is, by its name or its end.
func TestPageNamesEveryMetric(t *testing.T) {
	readme, err := os.ReadFile("../OPERATING.md")
	must(t, err)
	m := New("test")
	m.WatchLimits(nil, nil)
	m.WatchConnections(nil)
	m.WatchTroubles(nil)
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		m.registry.Describe(descs)
	}()
	named := 0
	for desc := range descs {
		name := regexp.MustCompile(`fqName: "(quotad_\w+)"`).FindStringSubmatch(desc.String())
		if name == nil {
			continue // of the Go runtime, and of the process
		}
		named++
		if end, _ := strings.CutPrefix(name[1], "quotad_limit"); !bytes.Contains(readme, []byte("`"+name[1]+"`")) && !bytes.Contains(readme, []byte("`"+end+"`")) {
			t.Errorf("the page does not name %s", name[1])
		}
	}
	if named < 25 {
		t.Errorf("there are only %d metrics", named)
	}
}
