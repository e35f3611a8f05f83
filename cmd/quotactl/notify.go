package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/quota/api"
)

const notifyUsage = `Try the command of EVENT, a key of [on_event]: quotad runs it with the values of
an example and QUOTAD_EXAMPLE=true, and quotactl prints what it wrote and how it
ended. If it failed, the exit code is 1. After 30 seconds quotad ends it.

Example:
  $ quotactl notify job_failing
  posted to #feeds
  job_failing ok after 0.4s
`

func newNotify(c *cli) *cobra.Command {
	return command("notify EVENT", "try the command of an event", notifyUsage, func(ctx context.Context, args []string) error {
		tried, err := c.client().Notify(ctx, args[0])
		if err := show(c, tried, err, nil, renderTried); err != nil || tried.Outcome == "ok" {
			return err
		}
		return &failure{code: exitError, err: fmt.Errorf("the command of %s failed: %s", tried.Event, tried.Detail)}
	})
}

func renderTried(t api.EventTested, v term.View) string {
	var b strings.Builder
	for _, line := range t.Output {
		b.WriteString(v.Clean(line) + "\n")
	}
	fmt.Fprintf(&b, "%s %s after %.1fs\n", t.Event, t.Outcome, float64(t.TookMS)/1000)
	return b.String()
}
