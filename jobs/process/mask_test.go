package process

import (
	"slices"
	"testing"

	"quotad/jobs"
)

// A secret that a command was given is in none of its lines, though it prints it.
func TestSecretsAreMasked(t *testing.T) {
	c := command("write", `"key=hunter2hunter2&x\n"`, `"hunter2 hunt"`, `"er2hunter2\n"`, "2>", `"hunter2hunter2"`)
	c.Secrets = []string{"hunter2", "hunter2hunter2"}
	var got []string
	if exit := (Launcher{}).Launch(t.Context(), t.Context(), c, func(line jobs.Line) { got = append(got, line.Text) }); exit.Code != 0 {
		t.Fatalf("got %+v", exit)
	}
	slices.Sort(got)
	if want := []string{"***", "*** ***", "key=***&x"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
