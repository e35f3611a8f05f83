package main

import (
	"cmp"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// formerly says of commands and flags that have ended what to use instead.
func formerly() map[string]string {
	return map[string]string{
		"watch": "quotactl status --watch", "next": "quotactl jobs", "version": "quotactl --version",
		"release": "quotactl settle GRANT 0", "adjust": "quotactl book", "resume": "quotactl pause JOB --end",
		"cursor":   "quotactl run JOB --region REGION, which leaves the cursor",
		"bookmark": "a file in $QUOTAD_JOB_DIR, which a pass keeps",
		"report":   "quotactl usage --since 7d, for what limits with enforce = false would have refused",
		"remote":   "quotactl usage, for what each caller spent",
		"lend":     "units of the limit in config.toml, then quotactl reload",
		"refusals": "quotactl log --denied, or quotactl runs RUN",
		"observe":  "curl --unix-socket /run/quotad.sock http://quotad/v1/observe -d operation=OPERATION -d status=429",
		"--all":    "quotactl jobs JOB", "--credential": "quotactl status CREDENTIAL LIMIT",
		"--limit": "quotactl status CREDENTIAL LIMIT", "--output": "--format",
		"--color": "NO_COLOR=1 in the environment", "plan --with": "quotad --check --config COPY",
		"acquire --at-most":       "quotactl why OPERATION, which says how many calls fit",
		"usage --suggest-expects": "quotactl runs RUN, which shows the calls of each pass",
	}
}

// former says what to use instead of an old command or flag; nil: old is none.
func former(old string) error {
	if instead := formerly()[old]; instead != "" {
		return usageError("use "+instead, "%q has ended", "quotactl "+old)
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
	hint := "see " + strings.Replace(cmd.CommandPath(), "quotactl", "quotactl help", 1)
	if unknown := new(pflag.NotExistError); errors.As(err, &unknown) {
		flag := "--" + unknown.GetSpecifiedName()
		if is := cmp.Or(former(cmd.Name()+" "+flag), former(flag)); is != nil {
			return is
		}
		if _, ok := parseUnits(unknown.GetSpecifiedShortnames()); ok && cmd.Name() == "book" {
			hint = lessBooked
		}
	}
	return usageError(hint, "%w", err)
}
