package quota

import (
	"fmt"
	"strings"
)

// maxName bounds every name that reaches a ledger, a log line or a metric.
const maxName = 64

// CheckName returns an error unless name may name a credential, limit, job or
// region: 1 to 64 letters, digits, '_' or '-', beginning with a letter or digit.
func CheckName(name string) error { return check(name, "_-") }

// CheckOperation returns an error unless name may name an operation: as
// CheckName, but with '.', '/' and ':' too ("videos.list").
func CheckOperation(name string) error { return check(name, "_-./:") }

func check(name, punctuation string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("a name has 1 to %d characters: %q", maxName, name)
	}
	for i, r := range name {
		isAlphanumeric := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		if isAlphanumeric || i > 0 && strings.ContainsRune(punctuation, r) {
			continue
		}
		return fmt.Errorf("a name is made of letters, digits and any of %q, and begins with a letter or digit: %q", punctuation, name)
	}
	return nil
}

// DidYouMean is the hint for an unknown name: the known one that was probably
// meant, else all of them, introduced by what they are.
func DidYouMean(unknown string, known []string, what string) string {
	switch near := Nearest(unknown, known); {
	case near != "":
		return "did you mean " + near + "?"
	case len(known) == 0:
		return "there are no " + what
	default:
		return what + ": " + strings.Join(known, ", ")
	}
}

// Meant returns the end of an error about an unknown name: the known one that was probably meant, or else what to do.
func Meant(unknown string, known []string, otherwise string) string {
	if near := Nearest(unknown, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return otherwise
}

// Nearest returns the one of the known names that was probably meant by an unknown one, or "" if none is close: up to a
// third of its letters may differ, and at least one may; upper and lower case do not matter.
func Nearest(unknown string, known []string) string {
	nearest, bound := "", max(1, len(unknown)/3)+1
	for _, name := range known {
		d := distance(strings.ToLower(unknown), strings.ToLower(name))
		if d < bound || strings.HasPrefix(name, unknown+".") { // search, of search.list
			nearest, bound = name, d
		}
	}
	return nearest
}

// distance counts the slips that turn one name into the other: a letter left out,
// put in, mistaken, or swapped with its neighbour.
func distance(a, b string) int {
	slips := make([][]int, len(a)+1) // slips[i][j]: from a[:i] to b[:j]
	for i := range slips {
		slips[i] = make([]int, len(b)+1)
		for j := range slips[i] {
			if i == 0 || j == 0 {
				slips[i][j] = i + j
				continue
			}
			mistaken := slips[i-1][j-1]
			if a[i-1] != b[j-1] {
				mistaken++
			}
			slips[i][j] = min(mistaken, slips[i-1][j]+1, slips[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				slips[i][j] = min(slips[i][j], slips[i-2][j-2]+1)
			}
		}
	}
	return slips[len(a)][len(b)]
}
