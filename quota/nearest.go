package quota

import (
	"fmt"
	"strings"
)

// DidYouMean is the hint for an unknown name: the known one that was probably
// meant, else all of them, which are called what.
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

// Meant returns what ends an error about an unknown name: the known one that was probably meant,
// or else what to do.
func Meant(unknown string, known []string, otherwise string) string {
	if near := Nearest(unknown, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return otherwise
}

// Nearest returns the one of the known names that was probably meant by an
// unknown one, or "" if none is close: up to a third of its letters may differ,
// and at least one may; upper and lower case do not matter.
func Nearest(unknown string, known []string) string {
	best, least := "", max(1, len(unknown)/3)+1
	for _, name := range known {
		if d := distance(strings.ToLower(unknown), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance counts the slips that make one name of the other: a letter left out,
// put in, mistaken, or swapped with its neighbour.
func distance(a, b string) int {
	table := make([][]int, len(a)+1) // table[i][j]: from a[:i] to b[:j]
	for i := range table {
		table[i] = make([]int, len(b)+1)
		for j := range table[i] {
			table[i][j] = slips(table, a[:i], b[:j])
		}
	}
	return table[len(a)][len(b)]
}

// slips is one step of distance: what the table says about shorter names is known.
func slips(table [][]int, a, b string) int {
	i, j := len(a), len(b)
	if i == 0 || j == 0 {
		return i + j
	}
	mistaken := table[i-1][j-1]
	if a[i-1] != b[j-1] {
		mistaken++
	}
	least := min(mistaken, table[i-1][j]+1, table[i][j-1]+1)
	if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
		least = min(least, table[i-2][j-2]+1)
	}
	return least
}
