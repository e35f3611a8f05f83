// Package seedtest gives tests that draw their histories the seed to draw them from: a fixed one, so that the tests
// of a clone pass each time or never, unless a person asks for another; and how much a test plays.
package seedtest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Variable is the environment variable that asks for other histories: "fresh" for
// ones that were never played, or a number to repeat those of a failed test.
const Variable = "QUOTAD_TEST_SEED"

// Seed returns the seed that a test draws from: fixed, unless Variable says
// otherwise. It logs the seed, so that a failure names it.
func Seed(t testing.TB, fixed uint64) uint64 {
	t.Helper()
	seed := fixed
	switch text := os.Getenv(Variable); text {
	case "":
	case "fresh":
		seed = uint64(rand.Uint32())
	default:
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s is neither fresh nor a number: %q", Variable, text)
		}
	}
	t.Logf("%s=%d", Variable, seed)
	return seed
}

// LongVariable is the environment variable that says how much a test plays that can play more: a number
// of whatever it counts, such as histories, passes or seconds. Set it with go test -run for that test.
const LongVariable = "QUOTAD_TEST_LONG"

// Long returns how much a test plays: LongVariable, or what takes seconds.
func Long(t testing.TB, otherwise int) int {
	t.Helper()
	text := os.Getenv(LongVariable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", LongVariable, err)
	}
	return n
}

// SkipUnderRace skips a test under the race detector, with which it would take minutes. What it plays is
// the work of one goroutine, or is played in other tests too.
func SkipUnderRace(t testing.TB) {
	t.Helper()
	if raceDetector {
		t.Skip("it takes too long under the race detector")
	}
}
