package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// formerly returns what took the place of old commands, and of old flags and words after a command.
func formerly() map[string]string {
	return map[string]string{
		"watch": "status --watch", "next": "jobs", "version": "--version", "release": "settle GRANT 0", "adjust": "book",
		"runs show": "runs RUN", "runs --job": "runs JOB", "plan --days": "plan", "log --newest": "log", "status --job": "jobs JOB", "--output": "--format",
	}
}

// gone returns what to do instead of old flags that nothing took the place of.
func gone() map[string]string {
	return map[string]string{
		"--color": "colours are for terminals: NO_COLOR=1 turns them off", "status --every": "--watch redraws the screen every two seconds",
		"status --number": "quotactl status prints it once",
	}
}

// former names what took the place of an old command or flag; nil: old is none.
func former(old string) error {
	if is := formerly()[old]; is != "" {
		return usageError("", "%q is now %q", "quotactl "+old, "quotactl "+is)
	}
	if instead := gone()[old]; instead != "" {
		return usageError("", "%q is gone: %s", "quotactl "+old, instead)
	}
	return nil
}

// formerCommands answer by the old names, whatever flags follow them. They are in no list.
func formerCommands() (list []*cobra.Command) {
	for old := range formerly() {
		if !strings.ContainsAny(old, " -") {
			answer := func(*cobra.Command, []string) error { return former(old) }
			list = append(list, &cobra.Command{Use: old, Hidden: true, DisableFlagParsing: true, RunE: answer})
		}
	}
	return list
}

// flagError explains why a command does not take a flag.
func flagError(cmd *cobra.Command, err error) error {
	hint := seeHelp(cmd)
	if unknown := new(pflag.NotExistError); errors.As(err, &unknown) {
		flag := "--" + unknown.GetSpecifiedName()
		if is := cmp.Or(former(cmd.Name()+" "+flag), former(flag)); is != nil {
			return is
		}
		number := unknown.GetSpecifiedShortnames()
		if _, ok := parseUnits(number); ok && (cmd.Name() == "book" || cmd.Name() == "lend") {
			hint = fmt.Sprintf("a number below 0 is the last argument, behind --: quotactl %s LIMIT -- -%s", cmd.Name(), number)
		}
	}
	return usageError(hint, "%w", err)
}
