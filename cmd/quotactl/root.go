package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quotad/quota"
	"quotad/quota/api"
)

const rootHead = `quotactl shows what is left of a running quotad's budgets, and operates it.

Usage:
  quotactl [COMMAND] [FLAGS]
`

const rootTail = `
Flags of every command:
      --socket PATH   quotad's socket; default: $QUOTAD_SOCKET, then
                      /run/quotad.sock, then ./.quotad/quotad.sock
  -o, --output FORM   table (for people), json (the API's own body) or value
                      (one bare integer)
      --utc           print times in UTC instead of local time
      --color WHEN    auto, always or never; NO_COLOR is honoured
  -h, --help          the usage of a command

Flag of quotactl alone:
      --version       the version of quotactl; the command version prints
                      quotad's too

Exit codes:
  0 ok  1 error  2 usage  3 quotad is unreachable  4 not found  75 denied

Example:
  $ quotactl acquire videos.list && curl "$URL"
`

// A group is a heading of quotactl help, and the commands below it.
type group struct {
	title    string
	commands []*cobra.Command
}

// groups returns every command. A command is here once its route is in the daemon.
func groups(c *cli, status, help *cobra.Command) []group {
	return []group{
		{"Look", []*cobra.Command{status, newWatch(c), newPage(c), newJobs(c), newRuns(c), newNext(c), newPlan(c), newWhy(c), newUsage(c), newLog(c), newRefusals(c), newClients(c), newRemote(c), newVersion(c)}},
		{"Spend", []*cobra.Command{newAcquire(c), newExec(c), newSettle(c), newRelease(c), newObserve(c), newAdjust(c), newLend(c), newReset(c), newClose(c), newOpen(c)}},
		{"Operate", []*cobra.Command{newRun(c), newStop(c), newPause(c), newResume(c), newCursor(c), newBookmark(c), newReload(c)}},
		{"Other", []*cobra.Command{newCompletion(c), newMan(c), help}},
	}
}

// rootUsage lists the commands by what each says of itself.
func rootUsage(groups []group) string {
	var b strings.Builder
	b.WriteString(rootHead)
	for _, g := range groups {
		fmt.Fprintf(&b, "\n%s:\n", g.title)
		for _, cmd := range g.commands {
			fmt.Fprintf(&b, "  %-10s  %s\n", cmd.Name(), cmd.Short)
		}
	}
	return b.String() + rootTail
}

// newRoot returns the whole tree of commands.
func newRoot(c *cli) *cobra.Command {
	status := newStatus(c)
	help := newHelp(c)
	groups := groups(c, status, help)
	ownVersion := false
	root := &cobra.Command{
		Use:  "quotactl",
		Long: rootUsage(groups),
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			if ownVersion {
				return c.write("quotactl " + api.BuildVersion() + "\n")
			}
			return status.RunE(cmd, args)
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	for _, g := range groups {
		root.AddCommand(g.commands...)
	}
	root.Flags().AddFlagSet(status.LocalFlags())
	root.Flags().BoolVar(&ownVersion, "version", false, "the version of quotactl")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(help)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { c.write(cmd.Long) })
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError(seeHelp(cmd), "%w", err)
	})
	root.SetIn(c.stdin)
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	c.flags(root)
	return root
}

// knownCommand refuses what is not a command, and names the nearest one.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := seeHelp(root)
	if name := quota.Nearest(args[0], commandNames(root)); name != "" {
		hint = "did you mean quotactl " + name + "?"
	}
	return usageError(hint, "unknown command %q", args[0])
}

func commandNames(root *cobra.Command) []string {
	var names []string
	for _, cmd := range root.Commands() {
		if !cmd.Hidden {
			names = append(names, cmd.Name())
		}
	}
	return names
}

// arguments accepts exactly the named arguments; those in brackets may be left out.
func arguments(names ...string) cobra.PositionalArgs {
	least := len(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name[0] == '[' }))
	want := "takes no arguments"
	if len(names) > 0 {
		want = "takes " + strings.Join(names, " ")
	}
	return func(cmd *cobra.Command, args []string) error {
		if least <= len(args) && len(args) <= len(names) {
			return nil
		}
		return usageError(seeHelp(cmd), "%s %s: %d given", cmd.CommandPath(), want, len(args))
	}
}

func seeHelp(cmd *cobra.Command) string {
	return "see " + strings.Replace(cmd.CommandPath(), "quotactl", "quotactl help", 1)
}
