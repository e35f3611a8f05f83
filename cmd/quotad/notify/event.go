package notify

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/quota"
)

// An Event is what the command reads as one JSON object on its standard input. Each field but the output is in its
// environment too: "left" is QUOTAD_LEFT.
type Event struct {
	Event   string    `json:"event"` // of config.Events
	At      time.Time `json:"at"`
	Again   bool      `json:"again,omitempty"`   // it was so when quotad started, and may have been reported before
	Example bool      `json:"example,omitempty"` // nothing has happened

	Kind  trouble.Kind `json:"kind,omitempty"` // of a trouble
	Of    string       `json:"of,omitempty"`
	Grave bool         `json:"grave,omitempty"`
	Since time.Time    `json:"since,omitzero"`
	Says  string       `json:"says"`         // what happened, in one sentence
	Do    string       `json:"do,omitempty"` // a command that mends it, or shows more

	Credential string       `json:"credential,omitempty"`
	Limit      string       `json:"limit,omitempty"`
	Budget     quota.Units  `json:"budget,omitempty"` // of the limit
	Left       *quota.Units `json:"left,omitempty"`

	Job       string                 `json:"job,omitempty"`
	RunID     string                 `json:"run_id,omitempty"`
	Trigger   jobs.Trigger           `json:"trigger,omitempty"`
	StartedAt time.Time              `json:"started_at,omitzero"`
	State     jobs.RunState          `json:"state,omitempty"`
	Reason    jobs.Reason            `json:"reason,omitempty"`
	Units     *quota.Units           `json:"units,omitempty"`
	Calls     map[string]quota.Units `json:"calls,omitempty"`
	Passes    map[jobs.Outcome]int   `json:"passes,omitempty"`
	TookMS    int64                  `json:"took_ms,omitempty"`
	RetryAt   time.Time              `json:"retry_at,omitzero"`
	NextRun   time.Time              `json:"next_run,omitzero"`
	Output    string                 `json:"output,omitempty"` // the last lines that each failed pass wrote
}

// Changed returns the event of a trouble that begins or ends.
func Changed(c trouble.Change, at time.Time) Event {
	e := Event{Event: config.EventTrouble, At: at, Again: c.Again, Kind: c.Kind, Of: c.Of, Grave: c.Grave, Since: c.Since, Says: c.Says, Do: c.Do}
	if c.Ended {
		e.Event = config.EventOver
	}
	switch what, name, _ := strings.Cut(c.Of, " "); what {
	case "job":
		e.Job = name
	case "credential":
		e.Credential = name
	case "limit":
		e.Credential, e.Limit, _ = strings.Cut(name, " ")
	}
	return e
}

// ofRun returns the event of a run that starts or ended.
func ofRun(changed jobs.RunChanged, at time.Time) Event {
	run := changed.Run
	e := Event{Event: config.EventRunStarted, At: at, Job: run.Job, RunID: run.ID, Trigger: run.Trigger, StartedAt: run.StartedAt,
		Says: run.Job + " starts", Do: "quotactl runs " + run.ID}
	if run.State == jobs.RunRunning {
		return e
	}
	units := run.Spent()
	e.Event, e.State, e.Reason, e.Units, e.Passes, e.RetryAt, e.NextRun = config.EventRunEnded, run.State, run.Reason, &units, run.Outcomes(), run.RetryAt, changed.Next
	e.Says = strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", run.Job, run.State, run.Detail), ": ")
	e.TookMS = max(0, run.EndedAt.Sub(run.StartedAt).Milliseconds())
	e.Calls = map[string]quota.Units{}
	var output []byte
	for _, p := range run.Passes {
		for operation, calls := range p.Made {
			e.Calls[operation] += calls
		}
		if p.Outcome.Failure() {
			for _, line := range p.Tail {
				output = append(output, p.Region.Before()+line+"\n"...)
			}
		}
	}
	e.Output = strings.ToValidUTF8(string(output[max(0, len(output)-maxOutput):]), "")
	return e
}

// maxOutput is how many bytes of output a command reads.
const maxOutput = 64 << 10

// encoded returns the event as the command reads it, and the variables of its environment.
func (e Event) encoded() (object []byte, environment []string) {
	object, err := json.Marshal(e)
	fields := map[string]any{}
	if err == nil {
		err = json.Unmarshal(object, &fields)
	}
	if err != nil {
		panic(err) // nothing in it can fail
	}
	delete(fields, "output")
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		text := fmt.Sprint(fields[key])
		switch value := fields[key].(type) {
		case float64: // a number of units or milliseconds
			text = fmt.Sprintf("%.0f", value)
		case map[string]any: // "search.list=2 videos.list=13"
			var list []string
			for _, name := range slices.Sorted(maps.Keys(value)) {
				list = append(list, fmt.Sprintf("%s=%.0f", name, value[name]))
			}
			text = strings.Join(list, " ")
		}
		environment = append(environment, "QUOTAD_"+strings.ToUpper(key)+"="+strings.ReplaceAll(text, "\x00", ""))
	}
	return append(object, '\n'), environment
}
