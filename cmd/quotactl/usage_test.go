package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestUsage checks the usage of each command: it names every flag, has an example and fits
// the screen, and the root's usage names every command.
func TestUsage(t *testing.T) {
	root := newRoot(&cli{})
	checkUsage(t, root)
	eachCommand(root, func(cmd *cobra.Command) {
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			checkUsage(t, cmd)
			if cmd.Short == "" {
				t.Error("the command has no line for completion")
			}
			if !strings.Contains(usageOf(reveal(root, cmd.Name())), "\n  "+cmd.Name()+" ") {
				t.Error("quotactl help does not name it")
			}
		})
	})
}

// The commands are these, and no others: each more is one more to learn.
func TestCommands(t *testing.T) {
	want := map[string]string{
		"Look":    "status page jobs runs plan why usage log report",
		"Spend":   "acquire exec settle",
		"Limits":  "book close open reset",
		"Operate": "run stop pause resume reload notify",
		"Other":   "man completion help",
	}
	got, hidden := map[string]string{}, []string{}
	eachCommand(newRoot(&cli{}), func(cmd *cobra.Command) {
		if cmd.Hidden {
			hidden = append(hidden, cmd.Name())
			return
		}
		got[cmd.GroupID] = strings.TrimSpace(got[cmd.GroupID] + " " + cmd.Name())
	})
	if !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if want := []string{"clients"}; !slices.Equal(hidden, want) {
		t.Errorf("%q are listed only where they are configured, want %q", hidden, want)
	}
}

func checkUsage(t *testing.T, cmd *cobra.Command) {
	t.Helper()
	for _, part := range []string{"\nUsage:\n  quotactl", "\nExample:\n  $ "} {
		if !strings.Contains(usageOf(cmd), part) {
			t.Errorf("the usage of %s lacks %q", cmd.Name(), part)
		}
	}
	flags := cmd.LocalNonPersistentFlags()
	if !cmd.HasParent() {
		flags = cmd.PersistentFlags()
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && !strings.Contains(usageOf(cmd), "--"+f.Name+" ") {
			t.Errorf("the usage of %s does not tell --%s", cmd.Name(), f.Name)
		}
	})
	for line := range strings.Lines(usageOf(cmd)) {
		if utf8.RuneCountInString(line)-1 > 80 {
			t.Errorf("the usage of %s has a line of %d columns: %q", cmd.Name(), utf8.RuneCountInString(line)-1, line)
		}
	}
}
