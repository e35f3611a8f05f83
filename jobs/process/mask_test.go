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

// A line that is too long shows no part of a secret in which it was cut.
func TestSecretsAreMaskedWhereALineIsCut(t *testing.T) {
	const keep = 20
	for _, row := range []struct {
		name    string
		secrets []string
		end     string // of what is kept
	}{
		{"in the secret", []string{"hunter2hunter2"}, "key=hunter2h"},
		{"before it", []string{"hunter2hunter2"}, "key="},
		{"after its first letter", []string{"hunter2hunter2"}, "key=h"},
		{"after it", []string{"hunter2hunter2"}, "hunter2hunter2"},
		{"in the longer of two", []string{"hunter2x", "hunter2xhunter2"}, "hunter2xhunt"},
		{"in one that holds another", []string{"one SECRET+ two", "SECRET+ "}, "one SECRET+ t"},
		{"in one that another ends in", []string{"xyzxyzab", "abcdefgh"}, "xyzxyzab"},
		{"in one that is not UTF-8", []string{"pass\xffword1"}, "pass\uFFFDwo"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got string
			emit := masked(func(line jobs.Line) { got = line.Text }, row.secrets)
			emit(jobs.Line{Text: strings.Repeat(".", keep) + row.end, Cut: true})
			if strings.Trim(got, ".*key=") != "" || !strings.HasSuffix(got, mask) || len(got) < keep/2 {
				t.Errorf("got %q", got)
			}
		})
	}
	c := command("write", `"`+strings.Repeat(".", maxLine-7)+`hunter2hunter2\n"`)
	c.Secrets = []string{"hunter2hunter2"}
	Launcher{}.Launch(t.Context(), t.Context(), c, func(line jobs.Line) {
		if strings.Contains(line.Text, "hunter") {
			t.Errorf("the line ends with %q", line.Text[len(line.Text)-20:])
		}
	})
}

// A secret that is not UTF-8 is masked in lines, which are.
func TestASecretOfOtherBytesIsMasked(t *testing.T) {
	var got string
	readLines(strings.NewReader("key=pass\xffword1\n"), "stdout", masked(func(line jobs.Line) { got = line.Text }, []string{"pass\xffword1"}))
	if got != "key=***" {
		t.Errorf("got %q", got)
	}
}
