package main

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
)

const watchUsage = `Show the status live, in place: the limits, the day's spending by the hour, and
the ring of each job; q or Ctrl-C ends it. Where the terminal cannot be drawn on
(TERM=dumb, or in the background, as below timeout), each is written below the
one before. Where the output is no terminal, it is the status as one line of
JSON, again and again.

Usage:
  quotactl watch [FLAGS]

Flags:
      --every DURATION   how often it is asked for (default 2s)
  -n, --number N         end after so many (default: go on)

The signs in a job's ring are explained by quotactl help status.

Example:
  $ quotactl watch -n 2 --every 10s | jq '.credentials[0].limits[0].remaining'
  5380
  5376
`

// A watchPlan says how often to look, and how many times; 0: for ever.
type watchPlan struct {
	every  time.Duration
	number int
}

const leastEvery = 100 * time.Millisecond

func newWatch(c *cli) *cobra.Command {
	var p watchPlan
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "the status, live and in place",
		Long:  watchUsage,
		Args:  arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case p.every < leastEvery:
				return usageError("", "--every must be at least %v: %v", leastEvery, p.every)
			case p.number < 0:
				return usageError("", "--number must not be negative: %d", p.number)
			case c.output == "value":
				return usageError("quotactl status -o value", "-o value is one integer, and a watch has no end")
			}
			return c.watch(cmd.Context(), p)
		},
	}
	cmd.Flags().DurationVar(&p.every, "every", 2*time.Second, "how often it is asked for")
	cmd.Flags().IntVarP(&p.number, "number", "n", 0, "end after so many")
	return cmd
}

func (c *cli) watch(ctx context.Context, p watchPlan) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	if c.output == "json" || !term.IsTerminal(c.stdout) {
		return c.tellAgain(ctx, p, c.line)
	}
	w := watcher{cli: c, reader: c.operator()}
	if c.env.Get("TERM") == "dumb" || !term.InForeground() {
		return c.tellAgain(ctx, p, w.page)
	}
	if w.look(ctx); w.lost != nil {
		return c.explain(w.lost) // before the screen is touched
	}
	return w.show(ctx, p)
}

// line writes the status as a line of JSON.
func (c *cli) line(ctx context.Context) error {
	var body json.RawMessage
	if err := c.reader().Get(ctx, "/v1/status", &body); err != nil {
		return c.explain(err)
	}
	return c.printLine(body)
}

// tellAgain tells the status as often as planned, and ends when it cannot.
func (c *cli) tellAgain(ctx context.Context, p watchPlan, tell func(context.Context) error) error {
	ticks := time.NewTicker(p.every)
	defer ticks.Stop()
	for shown := 1; ; shown++ {
		if err := tell(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if shown == p.number {
			return nil
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
	}
}
