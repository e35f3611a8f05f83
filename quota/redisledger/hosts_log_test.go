package redisledger

import (
	"strings"
	"testing"
	"time"

	"quotad/jobs"
)

const trendingLog = "quotad:{job:trending}:log"

// However much is told of a job, its log in Redis stays short; and who reads it for the first
// time knows its pause, its bookmarks and its last runs.
func TestTheLogOfAJobStaysShort(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		a, b := c.start("a"), c.start("b")
		c.until("12:45:00") // two runs
		if err := a.Pause("trending", "root", "", 0); err != nil {
			t.Fatal(err)
		}
		mark := strings.Repeat("x", jobs.MaxBookmark-1)
		for i := range 400 {
			if err := a.SetBookmark("trending", "DE", mark+string(rune('a'+i%26))); err != nil {
				t.Fatal(err)
			}
			if i%100 == 0 {
				b.status()
			}
		}
		if n := c.server.Do(t, "XLEN", trendingLog).(int64); n > 200 {
			t.Errorf("the log has %d records", n)
		}
		if left := c.server.Do(t, "PTTL", trendingLog).(int64); left < (50 * 24 * time.Hour).Milliseconds() {
			t.Errorf("the log expires in %d ms", left)
		}
		for _, h := range []*host{b, c.start("c")} {
			got, err := h.Bookmark("trending", "DE")
			if err != nil || got != mark+string(rune('a'+399%26)) || h.status().Pause == nil {
				t.Errorf("host %s has a bookmark of %d bytes, %v, and the pause %+v", h.name, len(got), err, h.status().Pause)
			}
			if runs, err := h.Runs("trending", 10); err != nil || len(runs) != 2 || len(runs[1].Passes) != 4 || runs[1].State != jobs.RunDone {
				t.Errorf("host %s has the runs %+v, %v", h.name, runs, err)
			}
			h.stop()
		}
		a.stop()
	})
}

// A job is hardly ever run: what is known of it is said again before its log is forgotten.
func TestAJobThatIsHardlyEverRun(t *testing.T) {
	withSimulatedHosts(t, func(c *simulatedHosts) {
		c.job.Schedule = jobs.Unscheduled{}
		a := c.start("a")
		if err := a.SetCursor("trending", "DE"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * 24 * time.Hour)
		if err := a.SetBookmark("trending", "FR", "page 5"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * 24 * time.Hour) // the first line is too old to be kept
		if err := a.SetBookmark("trending", "GB", "page 2"); err != nil {
			t.Fatal(err)
		}
		b := c.start("b")
		if got, err := b.Bookmark("trending", "FR"); err != nil || got != "page 5" || b.status().Cursor != "DE" {
			t.Errorf("got the bookmark %q, %v and the cursor at %s", got, err, b.status().Cursor)
		}
		a.stop()
		b.stop()
	})
}

// What another version of quotad wrote is understood by nobody: nothing is run beside it, and it
// stays as it is.
func TestAnotherVersionWroteToTheLogOfAJob(t *testing.T) {
	for name, fields := range map[string]string{"another record": "r 123456789012\xb2{}", "another line": "r 123456789012\xb1{\"v\":9}\n", "something else": "l {\"v\":1}"} {
		t.Run(name, func(t *testing.T) {
			withSimulatedHosts(t, func(c *simulatedHosts) {
				a := c.start("a")
				field, value, _ := strings.Cut(fields, " ")
				c.server.Do(t, "XADD", trendingLog, "946724400000-0", field, value)
				b := c.start("b")
				c.until("11:30:00")
				c.wants("11:00:00 run skipped (ledger_unavailable) ×1", "11:00:00 run skipped (ledger_unavailable) ×1")
				for _, h := range []*host{a, b} {
					if got := h.status().Skips; got == nil || !strings.Contains(got.Detail, "run the same version on all hosts") {
						t.Errorf("host %s says %+v", h.name, got)
					}
					if err := h.Pause("trending", "root", "", 0); err == nil {
						t.Error("a pause was told beside it")
					}
					h.stop()
				}
				if n := c.server.Do(t, "XLEN", trendingLog).(int64); n != 1 {
					t.Errorf("the log has %d records, want it as it was", n)
				}
			})
		})
	}
}
