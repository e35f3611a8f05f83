package clientlimit

import (
	"testing"
	"time"
)

// What was denied long ago is forgotten, span by span.
func TestTopSubjectsOfLate(t *testing.T) {
	var top topSubjects
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	top.record("=a", at)
	top.record("=a", at.Add(span-1))
	top.record("=b", at.Add(span))
	top.record("=a", at.Add(span))
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
			got := top.list(at.Add(row.after))
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
