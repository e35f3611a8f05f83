package process

import (
	"cmp"
	"slices"
	"strings"

	"quotad/jobs"
)

// mask stands where a secret stood.
const mask = "***"

// masked hands lines on without the secrets that they hold literally. Encoded, a
// secret is not known again.
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
