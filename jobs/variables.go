package jobs

import (
	"fmt"
	"regexp"
	"strings"
)

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
