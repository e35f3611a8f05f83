package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// formerly says of old commands, and of old flags and words after a command, what took their
// place or what to do instead.
func formerly() map[string]string {
	now := func(is string) string { return fmt.Sprintf("is now %q", "quotactl "+is) }
	return map[string]string{
		"watch": now("status --watch"), "next": now("jobs"), "version": now("--version"), "release": now("settle GRANT 0"), "adjust": now("book"),
		"runs show": now("runs RUN"), "runs --job": now("runs JOB"), "plan --days": now("plan"),
		"plan --with":  "is gone: change the interval in a copy of config.toml, and quotad --check --config COPY",
		"log --newest": now("log"), "status --job": now("jobs JOB"),
		"--output": now("--format"), "--color": "is gone: colours are for terminals: NO_COLOR=1 turns them off",
		"bookmark":          "is gone: a pass keeps a file in $QUOTAD_JOB_DIR",
		"cursor":            "is gone: quotactl run JOB --region REGION; quotactl jobs shows the cursor",
		"remote":            "is gone: the log has what each caller spent (quotactl usage), quotad's own log what it was refused",
		"lend":              "is gone: edit units of the limit in config.toml, then quotactl reload",
		"refusals":          "is gone: quotactl log --denied shows the last calls that were refused, quotactl runs RUN those of a run",
		"observe":           "is gone: curl --unix-socket /run/quotad.sock http://quotad/v1/observe -d operation=OPERATION -d status=429",
		"status --number":   "is gone: quotactl status prints it once",
		"acquire --at-most": "is gone: quotactl why OPERATION says how many calls fit: acquire that --count",
		"status --every":    "is gone: --watch redraws the screen every two seconds",
	}
}

// former says what became of an old command or flag; nil: old is none.
func former(old string) error {
	if says := formerly()[old]; says != "" {
		return usageError("", "%q %s", "quotactl "+old, says)
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
		if _, ok := parseUnits(number); ok && cmd.Name() == "book" {
			hint = lessBooked
		}
	}
	return usageError(hint, "%w", err)
}
