package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/manual"
	"quotad/quota/api"
)

// main carries out one command line. Answers go to stdout, everything else to stderr.
func main() {
	c := &cli{stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(c.report(newRoot(c).Execute()))
}

const rootUsage = `Quotactl shows what is left of a running quotad's budgets, and operates it.
CREDENTIAL may be left out where only one is configured.

Exit codes:
  0 ok  1 error  2 usage  3 quotad is unreachable  4 not found  75 denied (acquire, exec, run --wait)

Example:
  $ quotactl acquire videos.list && curl "$URL"`

// newRoot returns the whole tree of commands.
func newRoot(c *cli) *cobra.Command {
	status := newStatus(c)
	root := &cobra.Command{
		Use: "quotactl", Long: rootUsage, Version: api.BuildVersion(), RunE: status.RunE, PersistentPreRunE: c.begin,
		SilenceErrors: true, SilenceUsage: true,
	}
	cobra.EnableCommandSorting = false
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Look", []*cobra.Command{status, newPage(c), newJobs(c), newRuns(c), newPlan(c), newWhy(c), newUsage(c), newLog(c)}},
		{"Spend", []*cobra.Command{newAcquire(c), newExec(c), newSettle(c)}},
		{"Limits", []*cobra.Command{newBook(c), newClose(c), newOpen(c), newReset(c)}},
		{"Operate", []*cobra.Command{newRun(c), newStop(c), newPause(c), newReload(c), newNotify(c)}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, cmd := range group.commands {
			cmd.GroupID = group.title
			root.AddCommand(cmd)
		}
	}
	root.Flags().AddFlagSet(status.LocalFlags())
	root.AddCommand(&cobra.Command{Use: "man", Hidden: true, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		return c.write(manualPage(root))
	}})
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.SetVersionTemplate("quotactl {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("see "+strings.Replace(cmd.CommandPath(), "quotactl", "quotactl help", 1), "%w", err)
	})
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	root.InitDefaultVersionFlag() // else it takes the next word for its value
	c.flags(root)
	return root
}

// manualPage returns quotactl(1).
func manualPage(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(manual.Header(1, api.BuildVersion(), "quotactl", "ask and operate a running quotad"))
	b.WriteString(".SH DESCRIPTION\n" + manual.Verbatim(rootUsage+"\n\n"+root.UsageString()) + ".SH COMMANDS\n")
	for _, cmd := range root.Commands() {
		if cmd.GroupID != "" {
			fmt.Fprintf(&b, ".SS %s\n%s", manual.Escape(cmd.Name()), manual.Verbatim(cmd.Long+"\n\n"+cmd.UsageString()))
		}
	}
	return b.String() + manual.SeeAlso("quotad(8)", "quotad.toml(5)")
}
