package notify

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/quota"
)

// An Alert is an event for which a command may run. Which fields are set depends
// on the event.
type Alert struct {
	Event      config.Event
	At         time.Time
	Credential string
	Limit      quota.LimitState // of NearLimit and Exhausted, if it is known
	Percent    quota.Units      // of NearLimit
	Run        jobs.Run         // of JobFailing and RunEnded; of OverdueBegan and OverdueEnded its Job
	Next       time.Time        // of RunEnded: when the schedule has the next one, if that is known
	Pass       jobs.Pass
	RetryAt    time.Time // of Exhausted: when what was denied would be granted
	Detail     string    // for people
}

// environ returns the variables that describe the event, "NAME=value".
func (a Alert) environ() []string {
	env := variables{}
	env.add("EVENT", string(a.Event))
	env.add("AT", instant(a.At))
	env.add("CREDENTIAL", a.Credential)
	if a.Limit.Name != "" {
		env.add("LIMIT", a.Limit.Name)
		env.add("UNITS", number(a.Limit.Budget(false)))
		env.add("USED", number(a.Limit.Used))
		env.add("REMAINING", number(a.Limit.Remaining()))
	}
	if a.Event == config.Exhausted && a.Limit.DryRun {
		env.add("OBSERVED", "true") // nothing was denied
	}
	if a.Percent > 0 {
		env.add("PERCENT", number(a.Percent))
	}
	env.add("JOB", a.Run.Job)
	env.add("RUN_ID", a.Run.ID)
	if a.Event == config.RunEnded {
		env.run(a.Run, a.Next)
	}
	env.add("REGION", string(a.Pass.Region))
	env.add("OUTCOME", string(a.Pass.Outcome))
	env.add("RETRY_AT", instant(a.RetryAt))
	env.add("DETAIL", a.Detail)
	return env
}

// run adds the result of a run.
func (v *variables) run(r jobs.Run, next time.Time) {
	made := map[string]quota.Units{}
	for _, p := range r.Passes {
		for operation, calls := range p.Made {
			made[operation] += calls
		}
	}
	v.add("TRIGGER", string(r.Trigger))
	v.add("STATE", string(r.State))
	v.add("REASON", string(r.Reason))
	v.add("UNITS", number(r.Spent()))
	v.add("CALLS", counts(made))
	v.add("PASSES", counts(r.Outcomes()))
	v.add("STARTED_AT", instant(r.StartedAt))
	v.add("NEXT_RUN", instant(next))
}

// counts writes numbers by name, "search.list=2 videos.list=13".
func counts[Name ~string, Number int | quota.Units](of map[Name]Number) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		list = append(list, fmt.Sprintf("%s=%d", name, of[name]))
	}
	return strings.Join(list, " ")
}

// Variables are those of an environment whose names begin with QUOTAD_.
type variables []string

// add leaves out what is empty. No variable can hold a zero byte.
func (v *variables) add(name, value string) {
	if value != "" {
		*v = append(*v, "QUOTAD_"+name+"="+strings.ReplaceAll(value, "\x00", ""))
	}
}

func number(units quota.Units) string { return strconv.FormatInt(int64(units), 10) }

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
