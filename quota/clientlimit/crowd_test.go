package clientlimit

import (
	"fmt"
	"testing"
	"time"
)

func TestCrowd(t *testing.T) {
	begun := time.Now()
	for _, subjects := range []int{0, 1, 10, 1000, 5000, 100_000} {
		t.Run(fmt.Sprint(subjects), func(t *testing.T) {
			var c crowd
			for round := range 2 {
				for i := range subjects {
					c.record([]priced{{subject: subjectOf(fmt.Sprint("user", i))}}, begun.Add(time.Duration(round)*span))
				}
			}
			got, far := c.size(begun.Add(2*span-1)), max(1, subjects*15/100) // five times the usual error
			if got < subjects-far || got > subjects+far {
				t.Errorf("%d subjects are estimated as %d", subjects, got)
			}
			if got := c.size(begun.Add(4 * span)); got != 0 {
				t.Errorf("two spans later there are %d", got)
			}
		})
	}
}
