package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quotad/quota"

	"quotad/quota/api"
)

const rootUsage = `quotactl asks a running quotad what is left of its budgets, and operates it.

Usage:
  quotactl [COMMAND] [FLAGS]

Look:
  status      what is left, when units come back, what the jobs did (default)
  watch       the status, live and in place
  page        a day at a glance, live in a browser
  jobs        the jobs: schedule, cursor, next and last run
  runs        the latest runs and skipped ticks; runs show RUN: one of them
  next        the runs that come next
  plan        will the schedule fit, hour by hour, and what would do
  why         would a call be granted now, and if not, why
  usage       who spent what, by job, region, operation or caller
  log         what was debited and corrected; -f follows it
  refusals    what was refused in the last day, to whom and why
  clients     limits of your own API's clients, and who was denied most
  version     versions of quotactl and quotad

Spend:
  acquire     ask to spend before a call; exit code 75 when denied
  exec        acquire, then run a command
  settle      say what a grant really cost
  release     give a grant back: its call was never sent
  observe     tell what the upstream answered
  adjust      book units spent elsewhere, or give some back
  reset       empty a log: every limit starts from zero, and is open
  close       grant nothing from a limit until a time
  open        open a limit that is closed

Operate:
  run         begin a run now
  stop        end a run and its passes
  pause       keep the schedule from running a job
  resume      end a job's pause
  cursor      show or set where a job's next run begins
  bookmark    show or clear what a pass left for the next one
  reload      have quotad read its configuration again

Other:
  completion  a completion script for bash, zsh, fish or powershell
  man         the manual page
  help        the usage of a command, with an example

Flags of every command:
      --socket PATH   quotad's socket; else $QUOTAD_SOCKET, /run/quotad.sock,
                      ./.quotad/quotad.sock
  -o, --output FORM   table (for people), json (the API's own body) or value
                      (one bare integer)
      --utc           write times in UTC instead of local time
      --color WHEN    auto, always or never; NO_COLOR is honoured
  -h, --help          the usage of a command

Flag of quotactl alone:
      --version       the version of quotactl; the command tells quotad's too

Exit codes:
  0 ok  1 error  2 usage  3 quotad is unreachable  4 not found  75 denied

Example:
  $ quotactl acquire videos.list && curl "$URL"
`

// newRoot returns the whole tree of commands. A command is here once its route
// is in the daemon.
func newRoot(c *cli) *cobra.Command {
	status := newStatus(c)
	ownVersion := false
	root := &cobra.Command{
		Use:  "quotactl",
		Long: rootUsage,
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
	root.AddCommand(
		status, newWatch(c), newPage(c), newJobs(c), newRuns(c), newNext(c), newPlan(c), newWhy(c), newUsage(c), newLog(c), newRefusals(c), newClients(c), newVersion(c),
		newAcquire(c), newExec(c), newSettle(c), newRelease(c), newObserve(c), newAdjust(c), newReset(c), newClose(c), newOpen(c),
		newRun(c), newStop(c), newPause(c), newResume(c), newCursor(c), newBookmark(c), newReload(c),
		newCompletion(c), newMan(c),
	)
	root.Flags().AddFlagSet(status.LocalFlags())
	root.Flags().BoolVar(&ownVersion, "version", false, "the version of quotactl")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(newHelp(c))
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
