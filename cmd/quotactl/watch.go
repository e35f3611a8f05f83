package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	jobsapi "quotad/jobs/api"
)

const watchUsage = `Show the status and update it in place: what needs you, the limits and the jobs.
Ctrl-C ends it. On a terminal that cannot be redrawn (TERM=dumb), each status is
printed below the last one. Where the output is no terminal, each status is one
line of JSON.

Example:
  $ quotactl watch -n 2 --every 10s | jq '.credentials[0].limits[0].remaining'
  5380
  5376
`

// A watchPlan says how often to update, and how many times; 0: without an end.
type watchPlan struct {
	every  time.Duration
	number int
}

const minEvery = 100 * time.Millisecond

func newWatch(c *cli) *cobra.Command {
	var p watchPlan
	var only selection
	cmd := &cobra.Command{
		Use:   "watch [FLAGS]",
		Short: "the status, live and in place",
		Long:  watchUsage,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case p.every < minEvery:
				return usageError("", "--every must be at least %v: %v", minEvery, p.every)
			case p.number < 0:
				return usageError("", "--number must not be negative: %d", p.number)
			case c.output == "value":
				return usageError("quotactl status -o value", "-o value is one integer, and a watch has no end")
			}
			return c.watch(cmd.Context(), p, only)
		},
	}
	cmd.Flags().DurationVar(&p.every, "every", 2*time.Second, "one update per `DURATION`")
	cmd.Flags().IntVarP(&p.number, "number", "n", 0, "end after `N` updates (default: never)")
	only.flags(cmd, c)
	return cmd
}

// watch shows the status as often as planned, and when the screen has another size. It ends
// early if it cannot.
func (c *cli) watch(ctx context.Context, p watchPlan, only selection) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	w := watcher{cli: c, reader: c.client(), only: only}
	show, resized := w.line, make(chan os.Signal, 1)
	if c.output != "json" && term.IsTerminal(c.stdout) {
		show = w.page
		signal.Notify(resized, syscall.SIGWINCH)
		defer signal.Stop(resized)
	}
	ticks := time.NewTicker(p.every)
	defer ticks.Stop()
	for shown := 1; ; {
		err := show(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil || shown == p.number:
			return err
		}
		select {
		case <-ticks.C:
			shown++
		case <-resized:
		case <-ctx.Done():
			return nil
		}
	}
}

// A watcher is the status that is on the screen, and how it is updated.
type watcher struct {
	*cli
	reader jobsapi.Client
	status jobsapi.Status
	only   selection
	lost   error     // why the last update failed; nil if it did not
	since  time.Time // since when updates fail
}

// line prints the status as a line of JSON.
func (w *watcher) line(ctx context.Context) error {
	var body json.RawMessage
	if err := w.reader.Get(ctx, "/v1/status", &body); err != nil {
		return w.explain(err)
	}
	return w.printJSON(body, "")
}

// askTimeout bounds one question for the status.
const askTimeout = 3 * time.Second

// page updates the status and draws it over the last one, or prints it below that. Without
// an answer the last status stays; without any status it returns an error.
func (w *watcher) page(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	status, err := w.reader.Status(limited)
	if err == nil {
		err = w.only.apply(&status)
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case err == nil:
		w.status, w.lost = status, nil
	case w.status.Version == "":
		return w.explain(err)
	case w.lost == nil:
		w.lost, w.since = err, time.Now()
	default:
		w.lost = err
	}
	v := w.view()
	text := renderWatch(w, v)
	if os.Getenv("TERM") == "dumb" {
		return w.write(text + "\n")
	}
	return w.write(v.Draw(text))
}

// renderWatch writes the latest status and, if updates fail, why.
func renderWatch(w *watcher, v term.View) string {
	var b strings.Builder
	if w.lost != nil {
		v.Prose(&b, 0, term.Red, fmt.Sprintf("no answer since %s%s: %v", v.Clock(w.since), v.ZoneMark(), w.lost))
	}
	return b.String() + renderGlance(w.status, v)
}
