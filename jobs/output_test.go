package jobs

import (
	"fmt"
	"strings"
	"testing"
)

func TestOutputOfARun(t *testing.T) {
	o := &runOutput{run: "a"}
	for i := range 3 {
		o.add("US", Line{Stream: "stdout", Text: fmt.Sprint("page ", i)})
	}
	for after, want := range []string{"page 0 page 1 page 2", "page 1 page 2", "page 2", "", ""} {
		lines, written := o.after(after)
		var texts []string
		for _, l := range lines {
			texts = append(texts, l.Text)
		}
		if got := strings.Join(texts, " "); got != want || written != 3 {
			t.Errorf("after %d lines: got %q of %d, want %q of 3", after, got, written, want)
		}
	}
	if lines, written := (*runOutput)(nil).after(0); lines != nil || written != 0 {
		t.Errorf("a run that is not known wrote %d lines", written)
	}
}

// Whatever a job writes, what is kept of it is bounded, and a reader knows how much is missing.
func TestOutputIsBounded(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "short": "page 1 of many", "long": strings.Repeat("x", maxOutput+1)} {
		t.Run(name, func(t *testing.T) {
			o, most := &runOutput{}, maxOutput/64
			for range 3 * most {
				o.add("US", Line{Text: text})
			}
			o.add("US", Line{Text: "the last"})
			lines, written := o.after(0)
			if n := len(lines); n < 1 || n > most || lines[n-1].Text != "the last" || written != 3*most+1 {
				t.Errorf("%d lines are kept of %d, the last is %.20q", n, written, lines[n-1].Text)
			}
			if o.size > maxOutput {
				t.Errorf("%d bytes are kept", o.size)
			}
		})
	}
}
