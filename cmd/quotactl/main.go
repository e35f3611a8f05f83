package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/manual"
	"quotad/quota"
	"quotad/quota/api"
)

// main carries out one command line. Answers go to stdout, everything else to stderr.
func main() {
	c := &cli{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	cmd, err := newRoot(c).ExecuteC()
	os.Exit(c.report(c.advise(cmd, c.explain(err), os.Args[1:])))
}

const rootHead = `quotactl shows what is left of a running quotad's budgets, and operates it.

Usage:
  quotactl [COMMAND] [FLAGS]
`

const versionLine = "  --version   the version of quotactl; quotactl --all shows that of quotad\n"

const rootTail = `
Exit codes:
  0 ok  1 error  2 usage  3 quotad is unreachable  4 not found  75 denied

Example:
  $ quotactl acquire videos.list && curl "$URL"
`

// newRoot returns the whole tree of commands. A command is in it once its route is in the
// daemon.
func newRoot(c *cli) *cobra.Command {
	status, help := newStatus(c), newHelp()
	root := &cobra.Command{
		Use:           "quotactl",
		Args:          knownCommand,
		RunE:          status.RunE,
		Version:       api.BuildVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cobra.EnableCommandSorting = false
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Look", []*cobra.Command{status, newPage(c), newJobs(c), newRuns(c), newPlan(c), newWhy(c), newUsage(c), newLog(c), newReport(c), newClients(c)}},
		{"Spend", []*cobra.Command{newAcquire(c), newExec(c), newSettle(c)}},
		{"Limits", []*cobra.Command{newBook(c), newClose(c), newOpen(c), newReset(c)}},
		{"Operate", []*cobra.Command{newRun(c), newStop(c), newPause(c), newResume(c), newReload(c), newNotify(c)}},
		{"Other", []*cobra.Command{newMan(c), newCompletion(c), help}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, cmd := range group.commands {
			cmd.GroupID, cmd.Hidden = group.title, cmd.Name() == "clients" // see configured
		}
		root.AddCommand(group.commands...)
	}
	eachCommand(root, func(cmd *cobra.Command) {
		cmd.Flags().SortFlags = false
		if cmd.Args == nil {
			cmd.Args = argumentsOf(cmd)
		}
		c.complete(cmd)
	})
	root.Flags().AddFlagSet(status.LocalFlags())
	root.AddCommand(formerCommands()...)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetVersionTemplate("quotactl {{.Version}}\n")
	root.SetHelpCommand(help)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		if cmd == root {
			reveal(root, c.configured(cmd.Context())...)
		}
		c.write(usageOf(cmd))
	})
	root.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		if len(args) == 0 {
			names = c.configured(cmd.Context())
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	root.SetFlagErrorFunc(flagError)
	root.SetIn(c.stdin)
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	c.flags(root)
	return root
}

// usageColumns is how wide the usage of a command is.
const usageColumns = 80

// usageOf returns the usage of a command: the first paragraph of its text, how to call it,
// its flags, and the rest of its text with an example.
func usageOf(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return rootUsage(cmd)
	}
	var b strings.Builder
	first, rest, _ := strings.Cut(cmd.Long, "\n\n")
	b.WriteString(first + "\n\nUsage:\n")
	for line := range strings.SplitSeq(cmd.Use, "\n") {
		fmt.Fprintf(&b, "  %s %s\n", cmd.Parent().CommandPath(), line)
	}
	if flags := cmd.LocalNonPersistentFlags(); flags.HasFlags() {
		flags.SortFlags = false
		b.WriteString("\nFlags:\n" + flags.FlagUsagesWrapped(usageColumns))
	}
	if strings.Contains(cmd.Use, "[CREDENTIAL] ") {
		b.WriteString("\nCREDENTIAL may be left out where only one is configured.\n")
	}
	return b.String() + "\n" + rest
}

// rootUsage lists the commands that are not hidden.
func rootUsage(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(rootHead)
	for _, group := range root.Groups() {
		b.WriteString("\n" + group.Title + ":\n")
		for _, cmd := range root.Commands() {
			if cmd.GroupID == group.ID && !cmd.Hidden {
				fmt.Fprintf(&b, "  %-10s  %s\n", cmd.Name(), cmd.Short)
			}
		}
	}
	return b.String() + versionLine + "\nFlags of every command:\n" + root.PersistentFlags().FlagUsagesWrapped(usageColumns) + rootTail
}

// reveal lists the hidden commands of these names.
func reveal(root *cobra.Command, names ...string) *cobra.Command {
	for _, cmd := range root.Commands() {
		cmd.Hidden = cmd.Hidden && !slices.Contains(names, cmd.Name())
	}
	return root
}

// configured returns the names of the commands that are listed only where there is something for them
// to show.
func (c *cli) configured(ctx context.Context) (names []string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if list, err := c.client().ListClients(ctx); err == nil && len(list) > 0 {
		names = append(names, "clients")
	}
	return names
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

func commandNames(root *cobra.Command) (names []string) {
	eachCommand(root, func(cmd *cobra.Command) { names = append(names, cmd.Name()) })
	return names
}

// eachCommand calls do for every command that people may use.
func eachCommand(root *cobra.Command, do func(*cobra.Command)) {
	for _, cmd := range root.Commands() {
		if cmd.GroupID != "" {
			do(cmd)
		}
	}
}

// argumentNames returns the arguments that the first line of a command's usage names before
// its flags.
func argumentNames(cmd *cobra.Command) []string {
	line, _, _ := strings.Cut(cmd.Use, "\n")
	names := strings.Fields(line)[1:]
	if i := slices.IndexFunc(names, func(name string) bool { return name == "[FLAGS]" || strings.Contains(name, "--") }); i >= 0 {
		names = names[:i]
	}
	return names
}

// argumentsOf accepts exactly the arguments that a command names; those in brackets may be
// left out. A former command of two words gets its answer.
func argumentsOf(cmd *cobra.Command) cobra.PositionalArgs {
	names := argumentNames(cmd)
	required := 0
	for _, name := range names {
		if name[0] != '[' {
			required++
		}
	}
	want := "takes no arguments"
	if len(names) > 0 {
		want = "takes " + strings.Join(names, " ")
	}
	return func(cmd *cobra.Command, args []string) error {
		if required <= len(args) && len(args) <= len(names) {
			return nil
		}
		old := former(cmd.Name() + " " + strings.Join(args[:min(1, len(args))], ""))
		return cmp.Or(old, usageError(seeHelp(cmd), "%s %s: %d given", cmd.CommandPath(), want, len(args)))
	}
}

func seeHelp(cmd *cobra.Command) string {
	return "see " + strings.Replace(cmd.CommandPath(), "quotactl", "quotactl help", 1)
}

const helpUsage = `Print the usage of a command, with an example.

Example:
  $ quotactl help exec
`

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "the usage of a command, with an example",
		Long:  helpUsage,
		Args:  cobra.ArbitraryArgs,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return commandNames(cmd.Root()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			if len(args) == 0 {
				return root.Help()
			}
			found, rest, err := root.Find(args)
			switch {
			case err != nil || found == root || len(rest) > 0:
				return knownCommand(root, args)
			case found.GroupID == "":
				return found.RunE(found, nil)
			}
			return found.Help()
		},
	}
}

const manUsage = `Print the manual page, made of the texts that help prints.

Example:
  $ quotactl man >/usr/local/share/man/man1/quotactl.1
`

func newMan(c *cli) *cobra.Command {
	return &cobra.Command{Use: "man", Short: "the manual page", Long: manUsage, RunE: func(cmd *cobra.Command, _ []string) error {
		return c.write(manualPage(cmd.Root()))
	}}
}

// manualPage returns quotactl(1).
func manualPage(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(manual.Header(1, api.BuildVersion(), "quotactl", "ask and operate a running quotad") + ".SH DESCRIPTION\n" + manual.Verbatim(usageOf(reveal(root, commandNames(root)...))) + ".SH COMMANDS\n")
	eachCommand(root, func(cmd *cobra.Command) {
		fmt.Fprintf(&b, ".SS %s\n%s", manual.Escape(cmd.Name()), manual.Verbatim(usageOf(cmd)))
	})
	b.WriteString(manual.SeeAlso("quotad(8)", "quotad.toml(5)"))
	return b.String()
}
