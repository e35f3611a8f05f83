package process

import (
	"slices"
	"strings"
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

// A line that is too long shows no part of a secret at which it is split.
func TestSecretsAreMaskedWhereALineIsSplit(t *testing.T) {
	for _, row := range []struct {
		name    string
		secrets []string
		text    string
		want    string
	}{
		{"one", []string{"hunter2hunter2"}, "key=hunter2hunter2", "key=***"},
		{"the longer of two", []string{"hunter2x", "hunter2xhunter2"}, "key=hunter2xhunter2", "key=***"},
		{"one that holds another", []string{"one SECRET+ two", "SECRET+ "}, "one SECRET+ two", "***"},
		{"one that another begins in", []string{"xyzxyzab", "abcdefgh"}, "xyzxyzab", "***"},
		{"two in a row", []string{"hunter2", "hunter3"}, "hunter2hunter3", "******"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for before := maxLine - len(row.text) - 3; before < maxLine+3; before++ {
				got, dots := "", strings.Repeat(".", before)
				newLines(row.secrets, func(text string, _ bool) { got += text }).read(strings.NewReader(dots + row.text + "\n"))
				if got != dots+row.want {
					t.Fatalf("after %d bytes: got %q", before, strings.TrimLeft(got, "."))
				}
			}
		})
	}
	long, got := strings.Repeat("s", 3*maxLine), ""
	newLines([]string{long}, func(text string, _ bool) { got += text }).read(strings.NewReader("a" + long + long + "b"))
	if got != "a******b" {
		t.Errorf("a secret that is longer than a line: got %.100q", got)
	}
}

// A secret that is not UTF-8 is masked in lines, which are.
func TestASecretOfOtherBytesIsMasked(t *testing.T) {
	var got string
	newLines([]string{"pass\xffword1"}, func(text string, _ bool) { got = text }).read(strings.NewReader("key=pass\xffword1\n"))
	if got != "key=***" {
		t.Errorf("got %q", got)
	}
}
