package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/wording"
	"quotad/quota/api"
)

const reloadUsage = `
Make quotad read its configuration again, and print what changed. Runs under way
continue as they began. If the file has an error, or changes a key that needs a
restart, nothing changes and the exit code is 1.`

func newReload(c *cli) *cobra.Command {
	return command("reload", "make quotad read its configuration again", reloadUsage, 0, 0, func(ctx context.Context, _ []string) error {
		done, err := api.Ask[api.Reloaded](ctx, c.client().Client, http.MethodPost, "/v1/reload", nil)
		for _, one := range done.Warnings {
			fmt.Fprintf(c.stderr, "quotactl: warning: %s\n", one)
		}
		return show(c, done, err, func(done api.Reloaded, _ wording.View) string { return "read again, keys too: " + done.Changed + "\n" })
	})
}

const notifyUsage = `
Try the command of [on_event] with an example of EVENT: trouble, over, low,
run_started or run_ended. quotactl prints what it wrote and how it ended. If it
failed, the exit code is 1. After 30 seconds quotad ends it.`

func newNotify(c *cli) *cobra.Command {
	return command("notify EVENT", "try the command of an event", notifyUsage, 1, 1, func(ctx context.Context, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, api.CommandTimeout)
		defer cancel()
		tried, err := api.Ask[api.EventTested](ctx, c.client().Client, http.MethodPost, "/v1/notify", api.EventTest{Event: args[0]})
		if err := show(c, tried, err, renderTried); err != nil || tried.Outcome == "ok" {
			return err
		}
		return &failure{code: exitError, err: fmt.Errorf("the command of %s failed: %s", tried.Event, tried.Detail)}
	})
}

func renderTried(t api.EventTested, v wording.View) string {
	var b strings.Builder
	for _, line := range t.Output {
		b.WriteString(v.Clean(line) + "\n")
	}
	fmt.Fprintf(&b, "%s %s after %.1fs\n", t.Event, t.Outcome, float64(t.TookMS)/1000)
	return b.String()
}
