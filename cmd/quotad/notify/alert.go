package notify

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/quota"
)

// An Alert is an event for which a command may run. Which fields are set depends on the event.
type Alert struct {
	Event      config.EventName // empty: there is none of a trouble of this kind
	At         time.Time
	Credential string
	Limit      quota.LimitState // of NearLimit and Exhausted
	Percent    quota.Units      // of NearLimit
	Run        jobs.Run         // of RunStarted, RunEnded and JobFailing
	Next       time.Time        // of RunEnded: when the schedule has the next one, if that is known
	RetryAt    time.Time        // of Exhausted: when what was denied would be granted
	Detail     string           // for people
	Example    bool             // nothing has happened

	// Change is the beginning or end of a trouble; no Kind: it is none. Done is called once its command has ended, or if
	// there is none.
	Change trouble.Change
	Done   func()
}

// reports has the events that report the beginning and the end of a trouble, and what an example of it says.
var reports = map[trouble.Kind]struct {
	began, ended config.EventName // no ended: its end is not reported
	of, says, do string
}{
	trouble.Ledger:  {config.OutageBegan, config.OutageEnded, "ledger", "the ledger does not decide", "redis-cli ping"},
	trouble.Failing: {config.JobFailing, "", "job trending", "trending fails in GB: exit status 1", "quotactl runs trending --output"},
	trouble.Closed:  {config.LimitClosed, "", "limit youtube daily", "the upstream closed youtube daily at 7,600 of 10,000 units", "quotactl log youtube"},
	trouble.Key:     {config.UpstreamRefuses, "", "credential youtube", "the upstream refuses the key of youtube", "quotactl log youtube"},
	trouble.Spent:   {config.Overspent, "", "limit youtube daily", "youtube daily is 12 units over its budget", "quotactl log youtube"},
}

// Changed returns the alert of a change.
func Changed(c trouble.Change, at time.Time, done func()) Alert {
	a := Alert{Event: reports[c.Kind].began, At: at, Detail: c.Says, Change: c, Done: done}
	if c.Ended {
		a.Event = reports[c.Kind].ended
	}
	return a
}

// A subject is what alerts are about that wait for each other.
type subject struct {
	event   config.EventName // of an occurrence
	kind    trouble.Kind
	of      string
	percent quota.Units
}

func (a Alert) subject() subject {
	if a.Change.Kind != "" {
		return subject{kind: a.Change.Kind, of: a.Change.Of}
	}
	event := a.Event
	if event == config.RunStarted {
		event = config.RunEnded // which comes after it
	}
	return subject{event: event, of: a.Credential + "\x00" + a.Limit.Name + "\x00" + a.Run.Job, percent: a.Percent}
}

// environ returns the variables that describe the event, "NAME=value".
func (a Alert) environ() []string {
	env := variables{}
	env.add("EVENT", string(a.Event))
	env.add("AT", instant(a.At))
	if a.Example {
		env.add("EXAMPLE", "true")
	}
	env.add("CREDENTIAL", a.Credential)
	switch what, name, _ := strings.Cut(a.Change.Of, " "); what {
	case "job":
		env.add("JOB", name)
	case "credential":
		env.add("CREDENTIAL", name)
	case "limit":
		credential, limit, _ := strings.Cut(name, " ")
		env.add("CREDENTIAL", credential)
		env.add("LIMIT", limit)
	}
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
	switch a.Event {
	case config.RunStarted:
		env.began(a.Run)
	case config.RunEnded:
		env.began(a.Run)
		env.ended(a.Run, a.Next)
	}
	env.add("RETRY_AT", instant(a.RetryAt))
	env.add("DETAIL", a.Detail)
	env.add("DO", a.Change.Do)
	return env
}

// maxInput is how many bytes of output a command reads, the last ones.
const maxInput = 64 << 10

// input returns what the command reads on its standard input: the last lines that each failed pass of the run wrote, as
// quotactl runs RUN --output prints them.
func (a Alert) input() []byte {
	var text []byte
	for _, p := range a.Run.Passes {
		if !p.Outcome.Failure() {
			continue
		}
		for _, line := range p.Tail {
			text = append(text, p.Region.Before()+line+"\n"...)
		}
	}
	return text[max(0, len(text)-maxInput):]
}

// began adds which run it is.
func (v *variables) began(r jobs.Run) {
	v.add("JOB", r.Job)
	v.add("RUN_ID", r.ID)
	v.add("TRIGGER", string(r.Trigger))
	v.add("STARTED_AT", instant(r.StartedAt))
}

// ended adds the result of a run.
func (v *variables) ended(r jobs.Run, next time.Time) {
	made := map[string]quota.Units{}
	for _, p := range r.Passes {
		for operation, calls := range p.Made {
			made[operation] += calls
		}
	}
	v.add("STATE", string(r.State))
	v.add("REASON", string(r.Reason))
	v.add("UNITS", number(r.Spent()))
	v.add("CALLS", counts(made))
	v.add("PASSES", counts(r.Outcomes()))
	if !r.EndedAt.IsZero() {
		v.add("TOOK_MS", strconv.FormatInt(r.EndedAt.Sub(r.StartedAt).Milliseconds(), 10))
	}
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
