package clientlimit

import (
	"fmt"
	"hash/maphash"
	"testing"
	"time"
)

func TestSubjects(t *testing.T) {
	begun := time.Now()
	for _, subjects := range []int{0, 1, 10, 1000, 5000, 100_000} {
		t.Run(fmt.Sprint(subjects), func(t *testing.T) {
			c := tally{seed: maphash.MakeSeed()}
			for round := range 2 {
				for i := range subjects {
					c.asked([]priced{{subject: subjectOf(fmt.Sprint("user", i))}}, begun.Add(time.Duration(round)*span))
				}
			}
			got, far := c.subjects(begun.Add(2*span-1)), subjects*15/100 // five times the usual error
			if subjects < crowdSize {
				far = 0
			}
			if got < subjects-far || got > subjects+far {
				t.Errorf("%d subjects are estimated as %d", subjects, got)
			}
			if got := c.subjects(begun.Add(4 * span)); got != 0 {
				t.Errorf("two spans later there are %d", got)
			}
		})
	}
}

// What was denied long ago is forgotten, span by span.
func TestTopSubjectsOfLate(t *testing.T) {
	var top tally
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	top.deny("=a", at)
	top.deny("=a", at.Add(span-1))
	top.deny("=b", at.Add(span))
	top.deny("=a", at.Add(span))
	for _, row := range []struct {
		name  string
		after time.Duration
		want  []Denied
	}{
		{"both spans", span, []Denied{{"=a", 3, at.Add(span)}, {"=b", 1, at.Add(span)}}},
		{"the second is the one before", 2 * span, []Denied{{"=a", 1, at.Add(span)}, {"=b", 1, at.Add(span)}}},
		{"none", 4 * span, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := top.top(at.Add(row.after))
			if len(got) != len(row.want) {
				t.Fatalf("got %+v, want %+v", got, row.want)
			}
			for i := range got {
				if got[i] != row.want[i] {
					t.Errorf("got %+v, want %+v", got[i], row.want[i])
				}
			}
		})
	}
}
