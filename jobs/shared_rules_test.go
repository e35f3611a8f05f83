package jobs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"quotad/quota/seedtest"
)

// Each rule of the record is left out once: the simulation is to notice. A rule is a text of shared.go or
// share.go, and what stands there instead.
var sharedRules = []struct {
	rule                string
	temper              worldTemper // of the histories that notice
	file, text, instead string
}{
	{"a claimed slot is nobody else's", anything, "shared.go", "case !r.taken(now).Before(c.Slot):", "case false:"},
	{"a slot that lies far ahead claims nothing", anything, "shared.go", "if r.Slot.Is.Slot.After(now.Add(claimAhead)) {", "if false {"},
	{"a slot waits for the store's clock", hostClock, "shared.go", "	case c.Slot.After(now):\n		return claimed{}, &notYet", "	case false:\n		return claimed{}, &notYet"},
	{"a slot is not claimed in the next one's time", losses, "shared.go", "	case c.late(by.schedule, now):\n		return claimed{}", "	case false:\n		return claimed{}"},
	{"a pause holds", anything, "shared.go", "case !c.Slot.IsZero() && !c.Paused && r.Paused.Is.Active(now):", "case false:"},
	{"a run holds its job", anything, "shared.go", "	case held.ID != \"\":\n", "	case false:\n"},
	{"a host begins no run beside its own", deaths, "shared.go", "case by.run != \"\" && by.run != held.ID:", "case false:"},
	{"a run that was taken over is not renewed", deaths, "shared.go", "if r.Run.Is.ID != run {", "if false {"},
	{"the cursor is refused while a run is", anything, "shared.go", "	if r.Run.Is.ID != \"\" {\n		return r.Run", "	if false {\n		return r.Run"},
	{"a loss is waited out", losses, "shared.go", "case lost >= 0 && lost < lossTime:", "case lost >= 0 && lost < 0:"},
	{"the slot is put back", losses, "shared.go", "r.Slot.join(known.Slot, clock)", "false"},
	{"the run is put back", losses, "shared.go", "r.Run.join(known.Run, clock)", "false"},
	{"the pause is put back", losses, "shared.go", "r.Paused.join(known.Paused, clock)", "false"},
	{"the cursor is put back", losses, "shared.go", "r.Turn.join(known.Turn, clock)", "false"},
	{"a lease is what its host wrote last", anything, "shared.go", "r.Run.Is.Beat < known.Run.Is.Beat", "r.Run.Is.Until.Before(known.Run.Is.Until)"},
	{"the later value counts", losses, "shared.go", "return known.After(found) &&", "return"},
	{"a field's time goes on though the clock is set back", losses, "shared.go", "quota.Later(now, d.At.Add(time.Millisecond))", "now"},
	{"a lease is waited for", deaths, "share.go", "over := !clock.Before(held.Until) ||", "over := true ||"},
	{"a silent host is read twice", silences, "share.go", "s.watch.silent = clock.Sub(s.watch.clock) >= s.lease/3 && s.now().Sub(s.watch.local) >= s.lease/3", "s.watch.silent = true"},
	{"the second reading is a third of a lease later", anything, "share.go", "s.now().Sub(s.watch.local) >= s.lease/3", "true"},
	{"the store may have been silent between two readings", silences, "share.go", ", s.now().Sub(s.watch.last) > s.lease/5:", ":"},
	{"a failed reading begins that anew", silences, "share.go", "func (s *share) failed() {\n", "func (s *share) failed() {\n	return\n"},
	{"a lease that was renewed is not silent", clones, "share.go", "s.watch.beat != held.Beat ||", "false ||"},
	{"a lease that lies a year ahead is over", anything, "share.go", " || held.Until.After(clock.Add(longestHold))", ""},
	{"what a killed daemon left is watched, too", clones, "share.go", "	case s.watch.silent:\n", "	case s.watch.silent, own:\n"},
	{"a run outlives the end of an older one", anything, "share.go", "mine.ID == s.run && found.Run.Is.ID == \"\"", "false && found.Run.Is.ID == \"\""},
	{"a claim under way is not given up", anything, "share.go", "case id == \"\" || id == s.run || slices.Contains(s.begins, id):", "case id == \"\" || id == s.run:"},
	{"a claim that was given up is given back", hostClock, "share.go", "case slices.Contains(s.drawn, id):", "case false:"},
	{"an end that was not written is owed", silences, "share.go", "case own && s.owed.last.Why != Died:", "case false:"},
	{"a lost answer is looked for", anything, "share.go", "		values, err2 := s.read(ctx)\n", "		return true, nil\n		values, err2 := s.read(ctx)\n"},
	{"each swap has a tag", losses, "share.go", "r.Seq+1, s.draw()", "r.Seq+1, \"\""},
	{"answers count in their order", anything, "share.go", "if s.seen.number != number {", "if false {"},
	{"no pass is launched after the lease", deaths, "share.go", "return held.ID == run && left > 0", "return held.ID == run && left > -time.Hour"},
	{"a lease is renewed before others look twice", anything, "share.go", "func (s *share) renewTime() time.Duration { return s.claimant().lease / 6 }", "func (s *share) renewTime() time.Duration { return s.claimant().lease }"},
	{"a bookmark is for the run that holds the job", deaths, "share.go", "if run != \"\" && r.Run.Is.ID != run {", "if false {"},
	{"a bookmark is written on what was read", losses, "share.go", "if r.Tag != seen.Tag {", "if r.Tag != seen.Tag && false {"},
	{"a bookmark is put back", losses, "share.go", "if known := s.marks[region]; isLater(known.At, found.At, s.seen.clock) {", "if known := s.marks[region]; false {"},
	{"the bookmark of work that is done is dropped", silences, "shared.go", "range p.Done {", "range p.Done[:0] {"},
	{"what is lost is written at once", losses, "share.go", "due := s.seen.err == nil &&", "due := false &&"},
	{"bookmarks are put back after a loss", losses, "share.go", "lost := r.Lost.At.After(s.restored)", "lost := false"},
}

// It takes some minutes if seedtest.LongVariable says for how many histories each rule is left out.
func TestEachRuleOfTheRecordIsNeeded(t *testing.T) {
	histories := os.Getenv(seedtest.LongVariable)
	for i, rule := range sharedRules {
		t.Run(rule.rule, func(t *testing.T) {
			text, err := os.ReadFile(rule.file)
			must(t, err)
			if n := strings.Count(string(text), rule.text); n != 1 {
				t.Fatalf("rule %d stands %d times in %s", i, n, rule.file)
			}
			if histories == "" {
				return
			}
			dir := t.TempDir()
			wrong, overlay := filepath.Join(dir, rule.file), filepath.Join(dir, "overlay.json")
			here, err := filepath.Abs(rule.file)
			must(t, err)
			replace, err := json.Marshal(map[string]any{"Replace": map[string]string{here: wrong}})
			must(t, err)
			for path, data := range map[string][]byte{wrong: []byte(strings.Replace(string(text), rule.text, rule.instead, 1)), overlay: replace} {
				must(t, os.WriteFile(path, data, 0o600))
			}
			command := exec.Command("go", "test", "-vet=off", "-count=1", "-overlay", overlay, "-run", "^(TestSharesInSimulation|TestALookPutsBackWhatIsLost|TestASwapIsNotTakenForAnothers|TestABookmarkThatIsPutBackIsNotTheNewest|TestTheSecondReadingIsLater)$", ".")
			command.Env = append(os.Environ(), temperVariable+"="+strconv.Itoa(int(rule.temper)))
			out, err := command.CombinedOutput()
			if !strings.Contains(string(out), "--- FAIL") || err == nil {
				t.Errorf("nobody notices: %v\n%s", err, out)
			}
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, "seed ") {
					t.Log(strings.TrimSpace(line))
					break
				}
			}
		})
	}
}
