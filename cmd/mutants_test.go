package cmd

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var playMutants = flag.String("mutants", "", `play those of a package ("quota/proxy"), or those whose names match an expression; "." plays all`)

// A mutant breaks a promise, or plants a past defect again. A test must fail with it.
//
// Mutants are in testdata/mutants.txt of the package whose tests kill them. One is a paragraph:
//
//	NAME: the promise that it breaks
//	killed by TestName, or TestName/row, or left out: by any test of the package
//	FILE in the package, or its path from the root
//	- the line as it is, or several; without the space around it, it is in the file once
//	+ what takes its place, or nothing
//
// Another FILE line begins a change of another place. The name of a past defect begins with "defect-".
type mutant struct {
	name, breaks string
	pkg, killer  string // pkg from the root
	changes      []change
}

// A change replaces lines of a file.
type change struct {
	file     string // from the root
	old, new []string
}

// leastMutants and leastDefects are how many there are at least.
const leastMutants, leastDefects = 300, 40

// Each mutant still changes a line of the code as it is now, and the test that kills it is there.
func TestMutantsApply(t *testing.T) {
	mutants, names, defects := readMutants(t), make(map[string]bool), 0
	for _, m := range mutants {
		if names[m.name] {
			t.Errorf("two mutants are called %s", m.name)
		}
		names[m.name] = true
		if strings.HasPrefix(m.name, "defect-") {
			defects++
		}
		if _, err := m.apply(); err != nil {
			t.Errorf("mutant %s does not apply: %v: break the same promise in the code as it is now, or remove the mutant if the promise is gone", m.name, err)
		}
		if test, _, _ := strings.Cut(m.killer, "/"); test != "" && !hasTest(t, m.pkg, test) {
			t.Errorf("mutant %s is killed by %s, which %s lacks: name the test that has its promise now, or remove the mutant if the promise is gone", m.name, test, m.pkg)
		}
	}
	if len(mutants) < leastMutants || defects < leastDefects {
		t.Errorf("there are %d mutants and %d defects, not %d and %d", len(mutants), defects, leastMutants, leastDefects)
	}
}

// hasTest reports whether a package has a test.
func hasTest(t *testing.T, pkg, name string) bool {
	t.Helper()
	files, err := filepath.Glob("../" + pkg + "/*_test.go")
	must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}

// TestMutants has the tests of its package kill each mutant, and prints how. It plays only those that
// -mutants asks for.
func TestMutants(t *testing.T) {
	if *playMutants == "" {
		t.Skip("-mutants . plays all")
	}
	mutants := readMutants(t)
	asked := strings.Trim(*playMutants, "./")
	ofPackage := slices.ContainsFunc(mutants, func(m mutant) bool { return m.pkg == asked })
	chosen := regexp.MustCompile(*playMutants)
	mutants = slices.DeleteFunc(mutants, func(m mutant) bool {
		return ofPackage && m.pkg != asked || !ofPackage && !chosen.MatchString(m.name)
	})
	if len(mutants) == 0 {
		t.Fatalf("-mutants %s is no package with mutants, and matches no name", *playMutants)
	}
	passes := make(map[string]func() error) // by package and test
	for _, m := range mutants {
		test := m.pkg + " " + m.killer
		if passes[test] == nil {
			passes[test] = sync.OnceValue(m.passes)
		}
		pass := passes[test]
		t.Run(m.pkg+"/"+m.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			err := pass()
			by := ""
			if err == nil {
				by, err = m.play(t.TempDir())
			}
			if err != nil {
				t.Errorf("%s: %v", m.breaks, err)
				by = "**not killed**"
			}
			fmt.Printf("| %s | %s | %s | %s | %.0f |\n", m.pkg, m.name, m.breaks, by, time.Since(began).Seconds()) // as it comes
		})
	}
}

func readMutants(t *testing.T) (mutants []mutant) {
	t.Helper()
	walkFiles(t, "mutants.txt", func(path string) {
		text, err := os.ReadFile(path)
		must(t, err)
		pkg, err := filepath.Rel("..", filepath.Dir(filepath.Dir(path)))
		must(t, err)
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
	var named bool
	if m.name, m.breaks, named = strings.Cut(lines[0], ": "); !named {
		return m, fmt.Errorf("no NAME: PROMISE")
	}
	m.pkg, lines = pkg, lines[1:]
	if len(lines) > 0 {
		var killed bool
		if m.killer, killed = strings.CutPrefix(lines[0], "killed by "); killed {
			lines = lines[1:]
		} else {
			m.killer = ""
		}
	}
	for _, line := range lines {
		last := len(m.changes) - 1
		switch {
		case line[0] != '-' && line[0] != '+':
			if !strings.Contains(line, "/") {
				line = pkg + "/" + line
			}
			m.changes = append(m.changes, change{file: line})
		case last < 0:
			return m, fmt.Errorf("a change of no file: %q", line)
		case line[0] == '-':
			m.changes[last].old = append(m.changes[last].old, strings.TrimSpace(line[1:]))
		default:
			m.changes[last].new = append(m.changes[last].new, strings.TrimSpace(line[1:]))
		}
	}
	if len(m.changes) == 0 {
		return m, fmt.Errorf("a file or a change is missing")
	}
	return m, nil
}

// apply returns the files with the changes, by their paths from the root.
func (m *mutant) apply() (changed map[string]string, err error) {
	changed = make(map[string]string)
	for _, c := range m.changes {
		text, again := changed[c.file]
		if !again {
			content, err := os.ReadFile("../" + c.file)
			if err != nil {
				return nil, err
			}
			text = string(content)
		}
		if changed[c.file], err = c.apply(text); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// apply returns the text with the change.
func (c *change) apply(text string) (changed string, err error) {
	lines, at := strings.Split(text, "\n"), -1
	for i := range lines {
		if !c.at(lines[i:]) {
			continue
		}
		if at >= 0 {
			return "", fmt.Errorf("%s has the lines twice: add the one before", c.file)
		}
		at = i
	}
	if at < 0 || len(c.old) == 0 {
		return "", fmt.Errorf("%s has no line %q", c.file, strings.Join(c.old, " "))
	}
	after := append([]string{strings.Join(c.new, "\n")}, lines[at+len(c.old):]...)
	return strings.Join(append(lines[:at:at], after...), "\n"), nil
}

// at reports whether lines begin with those that the mutant changes.
func (c *change) at(lines []string) bool {
	if len(lines) < len(c.old) {
		return false
	}
	for i, old := range c.old {
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

// pattern returns which tests of its package kill the mutant.
func (m *mutant) pattern() string {
	if m.killer == "" {
		return "."
	}
	return "^" + strings.ReplaceAll(m.killer, "/", "$/^") + "$"
}

// play runs the tests with the mutant, until one fails, and returns which one does.
func (m *mutant) play(dir string) (by string, err error) {
	changed, err := m.apply()
	if err != nil {
		return "", err
	}
	overlay, replace := filepath.Join(dir, "overlay.json"), make(map[string]string)
	for path, content := range changed {
		original, err := filepath.Abs("../" + path)
		if err != nil {
			return "", err
		}
		replace[original] = filepath.Join(dir, fmt.Sprintf("mutant%d%s", len(replace), filepath.Ext(path)))
		if err := os.WriteFile(replace[original], []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err == nil {
		err = os.WriteFile(overlay, list, 0o600)
	}
	if err != nil {
		return "", err
	}
	output, err := m.test("-overlay=" + overlay)
	killers := failedTest.FindAllStringSubmatch(output, -1)
	switch hung := ranTest.FindStringSubmatch(output); {
	case err == nil:
		return "", fmt.Errorf("it survives")
	case len(killers) > 0:
		return killers[0][1], nil
	case hung != nil:
		return "", fmt.Errorf("%s hangs, and no test fails", hung[1])
	}
	return "", fmt.Errorf("it does not build, or ends the process:\n%s", output)
}

// test runs the tests that kill the mutant, until one fails. They are compiled and linked as fast as can be: that takes
// longer than they do.
func (m *mutant) test(overlay string) (output string, err error) {
	test := exec.Command("go", "test", "-v", "-gcflags=-N -l", "-ldflags=-s -w", "-vet=off", "-count=1", "-failfast",
		"-timeout", mutantTime.String(), "-run", m.pattern(), "./"+m.pkg)
	test.Dir = ".."
	test.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" "+overlay) // also of what tests build
	text, err := test.CombinedOutput()
	return string(text), err
}

// passes returns why the test that kills the mutant does not pass without it, by itself: it exists, and needs none
// before it.
func (m *mutant) passes() error {
	if m.killer == "" {
		return nil
	}
	output, err := m.test("")
	if passed := regexp.MustCompile(`(?m)^\s*--- PASS: ` + regexp.QuoteMeta(m.killer) + ` `); err != nil || !passed.MatchString(output) {
		return fmt.Errorf("%s does not pass by itself without the mutant:\n%s", m.killer, output)
	}
	return nil
}
