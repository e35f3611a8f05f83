package main

import (
	"maps"
	"strings"
	"testing"
)

// The commands are these, and no others: each more is one more to learn. Each has a line in the list and a text.
func TestCommands(t *testing.T) {
	want := map[string]string{
		"Look":    "status page jobs runs plan why usage log clients",
		"Spend":   "acquire exec settle",
		"Limits":  "book close open reset",
		"Operate": "run stop pause reload notify",
	}
	got, root := map[string]string{}, newRoot(&cli{})
	for _, cmd := range root.Commands() {
		if cmd.Hidden {
			continue
		}
		got[cmd.GroupID] = strings.TrimSpace(got[cmd.GroupID] + " " + cmd.Name())
		if cmd.Short == "" || cmd.Long == "" {
			t.Errorf("%s has no text", cmd.Name())
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if page := manualPage(root); !strings.Contains(page, ".SS status") || !strings.Contains(page, "75 denied") || strings.Contains(page, ".SS man") {
		t.Errorf("the manual page is\n%s", page)
	}
}
