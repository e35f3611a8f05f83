package process

import (
	"cmp"
	"slices"
	"strings"

	"quotad/jobs"
)

// mask replaces a secret.
const mask = "***"

// masked emits lines without the secrets that they hold literally. It does not find an encoded
// secret.
func masked(emit func(jobs.Line), secrets []string) func(jobs.Line) {
	if len(secrets) == 0 {
		return emit
	}
	// Of two that begin alike, the longer one is masked as a whole.
	byLength := slices.SortedFunc(slices.Values(secrets), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var pairs []string
	for _, secret := range byLength {
		pairs = append(pairs, secret, mask)
	}
	replacer := strings.NewReplacer(pairs...)
	return func(line jobs.Line) {
		line.Text = replacer.Replace(line.Text)
		emit(line)
	}
}
