package main

import (
	"strconv"
	"strings"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/quota"
)

// An alert is an event as a command is told of it. Which fields are set depends
// on the event.
type alert struct {
	event      config.Event
	at         time.Time
	credential string
	limit      quota.LimitState // of NearLimit and Exhausted, if it is known
	percent    quota.Units      // of NearLimit
	run        jobs.Run         // of JobFailing
	pass       jobs.Pass
	retryAt    time.Time // of Exhausted: when what was denied would be granted
	detail     string    // for people
}

// environ returns the variables that tell the event, "NAME=value".
func (a alert) environ() []string {
	env := variables{}
	env.add("EVENT", string(a.event))
	env.add("AT", instant(a.at))
	env.add("CREDENTIAL", a.credential)
	if a.limit.Name != "" {
		env.add("LIMIT", a.limit.Name)
		env.add("UNITS", number(a.limit.Budget(false)))
		env.add("USED", number(a.limit.Used))
		env.add("REMAINING", number(a.limit.Remaining()))
	}
	if a.percent > 0 {
		env.add("PERCENT", number(a.percent))
	}
	env.add("JOB", a.run.Job)
	env.add("RUN_ID", a.run.ID)
	env.add("REGION", string(a.pass.Region))
	env.add("OUTCOME", string(a.pass.Outcome))
	env.add("RETRY_AT", instant(a.retryAt))
	env.add("DETAIL", a.detail)
	return env
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
