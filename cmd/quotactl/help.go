package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"quotad/quota/api"
)

const helpUsage = `Print the usage of a command, with an example.

Usage:
  quotactl help [COMMAND]

Example:
  $ quotactl help exec
`

func newHelp(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "help [COMMAND]",
		Short:             "the usage of a command, with an example",
		Long:              helpUsage,
		ValidArgsFunction: completeCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			if len(args) == 0 {
				return c.write(root.Long)
			}
			found, rest, err := root.Find(args)
			if err != nil || found == root || len(rest) > 0 {
				return knownCommand(root, args)
			}
			return c.write(found.Long)
		},
	}
}

func completeCommand(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return commandNames(cmd.Root()), cobra.ShellCompDirectiveNoFileComp
}

const manUsage = `Print the manual page, made of the texts that help prints.

Usage:
  quotactl man

Example:
  $ quotactl man >/usr/local/share/man/man1/quotactl.1
`

func newMan(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "man",
		Short: "the manual page",
		Long:  manUsage,
		Args:  arguments(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.write(manual(cmd.Root())) },
	}
}

// manual returns quotactl(1) in the language of man(7). Our texts are laid out
// by hand, so they stand in it as they are.
func manual(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH QUOTACTL 1 \"\" \"quotactl %s\"\n", roff(api.BuildVersion()))
	b.WriteString(".SH NAME\nquotactl \\- ask and operate a running quotad\n")
	b.WriteString(".SH DESCRIPTION\n" + verbatim(root.Long))
	b.WriteString(".SH COMMANDS\n")
	commands(root, func(cmd *cobra.Command) {
		fmt.Fprintf(&b, ".SS %s\n%s", roff(strings.TrimPrefix(cmd.CommandPath(), "quotactl ")), verbatim(cmd.Long))
	})
	b.WriteString(".SH SEE ALSO\n.BR quotad (8)\n")
	return b.String()
}

// commands calls do for every command below root that people may use.
func commands(root *cobra.Command, do func(*cobra.Command)) {
	for _, cmd := range root.Commands() {
		if !cmd.Hidden {
			do(cmd)
			commands(cmd, do)
		}
	}
}

// verbatim sets text line by line as it is.
func verbatim(text string) string {
	return ".nf\n" + roff(text) + ".fi\n"
}

// roff escapes what has a meaning to roff: backslashes, hyphens that are not to
// be typeset, and the characters that begin a request at the start of a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "")
}
