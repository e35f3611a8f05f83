package api

import "testing"

func TestAnswersAreReadBackAsTheyWereWritten(t *testing.T) {
	for _, a := range answers {
		if got := answerFor(a.reason); got.denial != a.denial {
			t.Errorf("%s: two rows disagree", a.reason)
		}
		if back := answerOf(a.status); back.status != a.status {
			t.Errorf("%d is read back as %d", a.status, back.status)
		}
		if p := problemOf(a, ""); p.Status != a.status || p.Title == "" || p.Type == "" || p.Reason != a.reason {
			t.Errorf("%s: %+v", a.reason, p)
		}
	}
	if p := NewProblem("invented", "x"); p.Status != 500 || p.Reason != InternalError {
		t.Errorf("an unknown reason is written as %+v", p)
	}
}
