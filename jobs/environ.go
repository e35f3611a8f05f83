package jobs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// contractPrefix begins the names of the variables that quotad sets for a pass.
const contractPrefix = "QUOTAD_"

// Inherited returns the part of a daemon's environment that the programs it runs inherit. Variables
// from systemd (NOTIFY_SOCKET, LISTEN_FDS, CREDENTIALS_DIRECTORY …) are not for its children.
func Inherited(environ []string) []string {
	names := []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"}
	var passed []string
	for _, entry := range environ {
		name, _, ok := strings.Cut(entry, "=")
		if ok && (slices.Contains(names, name) || strings.HasPrefix(name, "LC_")) {
			passed = append(passed, entry)
		}
	}
	return passed
}

// environ returns the complete environment of a pass: the allowed part of the daemon's own, over
// it the job's, over that what quotad sets for the pass.
func environ(own []string, job *Job, contract map[string]string) []string {
	vars := make(map[string]string, len(job.Env)+len(contract)+16)
	for _, entry := range Inherited(own) {
		name, value, _ := strings.Cut(entry, "=")
		vars[name] = value
	}
	maps.Copy(vars, job.Env)
	maps.Copy(vars, contract)
	env := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}

// A Variable is one that an operator sets for the passes of a run, "since=2026-01-01": they find it
// in their environment as QUOTAD_SET_SINCE.
type Variable string

// setPrefix begins the names of variables, so that they collide with no others.
const setPrefix = contractPrefix + "SET_"

const maxVariables = 50 // of a run

var variableName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// checkVariables returns what is wrong with those of a run, or nil.
func checkVariables(list []Variable) error {
	if len(list) > maxVariables {
		return fmt.Errorf("%w: a run has at most %d variables: %d", ErrInvalid, maxVariables, len(list))
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

// name returns the name in the environment.
func (v Variable) name() string {
	name, _, _ := strings.Cut(string(v), "=")
	return setPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

func (v Variable) value() string {
	_, value, _ := strings.Cut(string(v), "=")
	return value
}
