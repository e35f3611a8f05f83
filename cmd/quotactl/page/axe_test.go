package page_test

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

// axe is the source of axe-core, a checker of accessibility: contrast, names, headings,
// landmarks. QUOTAD_TEST_AXE names its file, axe.min.js of the npm package axe-core.
func axe(t *testing.T) string {
	t.Helper()
	file := os.Getenv("QUOTAD_TEST_AXE")
	if file == "" {
		t.Skip("QUOTAD_TEST_AXE=axe.min.js asks for it")
	}
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

// Everything that can be opened is open, so that all of the page is checked.
const openAll = `document.querySelectorAll("details").forEach(d => d.open = true)`

// violations returns, for each rule that the page breaks, the rule and the first place.
const violations = `axe.run().then(found => found.violations.map(v =>
	v.id + " (" + v.nodes.length + "): " + v.nodes[0].html.slice(0, 200) + ": " + v.nodes[0].failureSummary))`

// accessible checks the page in light and dark, at both ends of widths.
func (b *browser) accessible(t *testing.T) {
	source := axe(t)
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[any](source+";"+openAll)); err != nil {
		t.Fatal(err)
	}
	b.views(t, func(view string) {
		found, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](violations, chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatal(err)
		}
		for _, violation := range found {
			t.Errorf("%s: %s", view, violation)
		}
	})
}
