package jobs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"quotad/regions"
)

// contractPrefix begins the names of what quotad tells a pass.
const contractPrefix = "QUOTAD_"

// Inherited returns what a daemon's environment passes on to the programs that
// it runs. Nothing else is: what systemd tells the daemon (NOTIFY_SOCKET,
// LISTEN_FDS, CREDENTIALS_DIRECTORY …) is not for its children.
func Inherited(environ []string) []string {
	var passed []string
	for _, entry := range environ {
		if name, _, ok := strings.Cut(entry, "="); ok && inherited(name) {
			passed = append(passed, entry)
		}
	}
	return passed
}

func inherited(name string) bool {
	switch name {
	case "PATH", "HOME", "LANG", "TZ", "TMPDIR":
		return true
	}
	return strings.HasPrefix(name, "LC_")
}

// A contract is what a pass is told about itself.
type contract struct {
	socket      string
	token       string
	region      regions.Region
	runID       string
	scheduledAt time.Time // the slot, not the launch
	deadline    time.Time // when the timeout strikes
	bookmark    string    // what the last pass of the region left; empty: nothing
	proxy       string    // by which it calls the upstream without asking first; empty: it cannot
	set         []Variable
}

// environ returns the complete environment of a pass: the allowed part of the
// daemon's own, over it the job's, over that the contract.
func environ(own []string, job *Job, c contract) []string {
	vars := make(map[string]string, len(job.Env)+16)
	for _, entry := range Inherited(own) {
		name, value, _ := strings.Cut(entry, "=")
		vars[name] = value
	}
	maps.Copy(vars, job.Env)
	maps.Copy(vars, map[string]string{
		"QUOTAD_SOCKET":       c.socket,
		"QUOTAD_TOKEN":        c.token,
		"QUOTAD_JOB":          job.Name,
		"QUOTAD_REGION":       string(c.region),
		"QUOTAD_RUN_ID":       c.runID,
		"QUOTAD_CREDENTIAL":   job.Credential,
		"QUOTAD_SCHEDULED_AT": c.scheduledAt.UTC().Format(time.RFC3339),
		"QUOTAD_DEADLINE":     c.deadline.UTC().Format(time.RFC3339),
	})
	if c.bookmark != "" {
		vars["QUOTAD_BOOKMARK"] = c.bookmark
	}
	if c.proxy != "" {
		vars["QUOTAD_PROXY"] = c.proxy
	}
	for _, v := range c.set {
		vars[v.name()] = v.value()
	}
	env := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}

// A Variable is what somebody who asks for a run has its passes know, "since=2026-01-01":
// they find it in their environment as QUOTAD_SET_SINCE.
type Variable string

// setPrefix begins the names of variables, so that none stands for anything else.
const setPrefix = contractPrefix + "SET_"

const mostVariables = 50 // of a run

var variableName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// checkVariables returns what is wrong with those of a run, or nil.
func checkVariables(list []Variable) error {
	if len(list) > mostVariables {
		return fmt.Errorf("%w: a run has at most %d variables: %d", ErrInvalid, mostVariables, len(list))
	}
	taken := map[string]Variable{}
	for _, v := range list {
		name, value, assigned := strings.Cut(string(v), "=")
		switch {
		case !assigned:
			return fmt.Errorf("%w: a variable is NAME=VALUE: %q", ErrInvalid, v)
		case !variableName.MatchString(name):
			return fmt.Errorf("%w: the name of a variable has 1 to 64 letters, digits, '_' and '-', and begins with a letter: %q", ErrInvalid, name)
		case hasNUL(value):
			return fmt.Errorf("%w: a variable holds no NUL: %q", ErrInvalid, v)
		}
		if before, is := taken[v.name()]; is {
			return fmt.Errorf("%w: %q and %q are both %s", ErrInvalid, before, v, v.name())
		}
		taken[v.name()] = v
	}
	return nil
}

// name is that in the environment.
func (v Variable) name() string {
	name, _, _ := strings.Cut(string(v), "=")
	return setPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

func (v Variable) value() string {
	_, value, _ := strings.Cut(string(v), "=")
	return value
}
