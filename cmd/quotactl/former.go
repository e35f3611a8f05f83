package main

import (
	"github.com/spf13/cobra"
)

// former has, of commands that have ended, what to use instead.
var former = map[string]string{
	"adjust":   "quotactl book",
	"bookmark": "a file in $QUOTAD_JOB_DIR, which a pass keeps",
	"clients":  "curl --unix-socket /run/quotad.sock http://quotad/v1/clients",
	"cursor":   "quotactl run JOB --region REGION, which leaves the cursor",
	"lend":     "units of the limit in config.toml, then quotactl reload",
	"next":     "quotactl jobs",
	"observe":  "curl --unix-socket /run/quotad.sock http://quotad/v1/observe -d operation=OPERATION -d status=429",
	"refusals": "quotactl log --denied, or quotactl runs RUN",
	"release":  "quotactl settle GRANT 0",
	"remote":   "quotactl usage, for what each caller spent",
	"report":   "quotactl usage --since 7d, for what limits with enforce = false would have refused",
	"resume":   "quotactl pause JOB --end",
	"version":  "quotactl --version",
	"watch":    "quotactl status --watch",
}

// formerCommands answer by the old names, whatever follows them. They are in no list.
func formerCommands() (list []*cobra.Command) {
	for old, instead := range former {
		list = append(list, &cobra.Command{Use: old, Hidden: true, DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error {
			return usageError("use "+instead, "%q has ended", "quotactl "+old)
		}})
	}
	return list
}
