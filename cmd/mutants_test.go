package cmd

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var playMutants = flag.String("mutants", "", "play the mutants whose names match this expression, \".\" for all")

// A mutant is a change of a line that breaks a promise. A test must fail with it.
//
// Mutants are in testdata/mutants.txt of the package whose tests kill them. One is a paragraph:
//
//	NAME: the promise that it breaks
//	FILE in the package, or its path from the root
//	- the line as it is, or several; without the space around it, it is in the file once
//	+ what takes its place, or nothing
type mutant struct {
	name, breaks string
	pkg, file    string // from the root
	old, new     []string
}

// leastMutants is how many there are at least.
const leastMutants = 30

// Each mutant still changes a line of the code as it is now.
func TestMutantsApply(t *testing.T) {
	mutants, names := readMutants(t), make(map[string]bool)
	for _, m := range mutants {
		if names[m.name] {
			t.Errorf("two mutants are called %s", m.name)
		}
		names[m.name] = true
		if _, err := m.apply(); err != nil {
			t.Errorf("mutant %s does not apply: %v: break the same promise in the code as it is now, or remove the mutant if the promise is gone", m.name, err)
		}
	}
	if len(mutants) < leastMutants {
		t.Errorf("there are %d mutants, not %d", len(mutants), leastMutants)
	}
}

// TestMutants has the tests of its package kill each mutant, and prints how. It plays only those that
// -mutants asks for.
func TestMutants(t *testing.T) {
	if *playMutants == "" {
		t.Skip("-mutants . plays all")
	}
	chosen := regexp.MustCompile(*playMutants)
	table := "| mutant | breaks | killed by | seconds |\n|---|---|---|--:|\n"
	for _, m := range readMutants(t) {
		if !chosen.MatchString(m.name) {
			continue
		}
		began := time.Now()
		by, err := m.play(t.TempDir())
		if err != nil {
			t.Errorf("mutant %s (%s): %v", m.name, m.breaks, err)
			by = "**" + err.Error() + "**"
		}
		row := fmt.Sprintf("| %s | %s | %s | %.0f |\n", m.name, m.breaks, by, time.Since(began).Seconds())
		table += row
		fmt.Print(row) // as it comes
	}
	t.Log("\n" + table)
}

func readMutants(t *testing.T) (mutants []mutant) {
	t.Helper()
	walkFiles(t, "mutants.txt", func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pkg, err := filepath.Rel("..", filepath.Dir(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		for _, paragraph := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
			m, err := readMutant(pkg, strings.Split(strings.TrimSpace(paragraph), "\n"))
			if err != nil {
				t.Fatalf("%s: %v in\n%s", path, err, paragraph)
			}
			mutants = append(mutants, m)
		}
	})
	return mutants
}

func readMutant(pkg string, lines []string) (m mutant, err error) {
	if len(lines) < 3 {
		return m, fmt.Errorf("a name, a file or a change is missing")
	}
	var named bool
	if m.name, m.breaks, named = strings.Cut(lines[0], ": "); !named {
		return m, fmt.Errorf("no NAME: PROMISE")
	}
	if m.pkg, m.file = pkg, lines[1]; !strings.Contains(m.file, "/") {
		m.file = pkg + "/" + m.file
	}
	for _, line := range lines[2:] {
		switch text := strings.TrimSpace(line[1:]); line[0] {
		case '-':
			m.old = append(m.old, text)
		case '+':
			m.new = append(m.new, text)
		default:
			return m, fmt.Errorf("neither - nor +: %q", line)
		}
	}
	return m, nil
}

// apply returns the file with the change.
func (m *mutant) apply() (changed string, err error) {
	text, err := os.ReadFile("../" + m.file)
	if err != nil {
		return "", err
	}
	lines, at := strings.Split(string(text), "\n"), -1
	for i := range lines {
		if !m.at(lines[i:]) {
			continue
		}
		if at >= 0 {
			return "", fmt.Errorf("%s has the lines twice: add the one before", m.file)
		}
		at = i
	}
	if at < 0 || len(m.old) == 0 {
		return "", fmt.Errorf("%s has no line %q", m.file, strings.Join(m.old, " "))
	}
	after := append([]string{strings.Join(m.new, "\n")}, lines[at+len(m.old):]...)
	return strings.Join(append(lines[:at:at], after...), "\n"), nil
}

// at reports whether lines begin with those that the mutant changes.
func (m *mutant) at(lines []string) bool {
	if len(lines) < len(m.old) {
		return false
	}
	for i, old := range m.old {
		if strings.TrimSpace(lines[i]) != old {
			return false
		}
	}
	return true
}

// mutantTime is how long the tests of a package may take.
const mutantTime = 10 * time.Minute

var (
	failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	ranTest    = regexp.MustCompile(`(?m)^\s*running tests:\n\s*(\S+)`)
)

// play runs the tests with the mutant, until one fails, and returns which one does.
func (m *mutant) play(dir string) (by string, err error) {
	changed, err := m.apply()
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs("../" + m.file)
	if err != nil {
		return "", err
	}
	file, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: file}})
	if err != nil {
		return "", err
	}
	for path, content := range map[string]string{file: changed, overlay: string(list)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	test := exec.Command("go", "test", "-vet=off", "-failfast", "-timeout", mutantTime.String(), "./"+m.pkg)
	test.Dir = ".."
	test.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay) // also of what tests build
	output, err := test.CombinedOutput()
	killers := failedTest.FindAllStringSubmatch(string(output), -1)
	switch hung := ranTest.FindStringSubmatch(string(output)); {
	case err == nil:
		return "", fmt.Errorf("it survives")
	case len(killers) > 0:
		return killers[0][1], nil
	case hung != nil:
		return "", fmt.Errorf("%s hangs, and no test fails", hung[1])
	}
	return "", fmt.Errorf("it does not build, or ends the process:\n%s", output)
}
