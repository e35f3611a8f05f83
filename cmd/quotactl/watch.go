package main

import (
	"context"
	"encoding/json"
	"errors"
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
q or Ctrl-C ends it. On a terminal that cannot be redrawn (TERM=dumb, or in the
background), each status is printed below the last one. Where the output is no
terminal, each status is one line of JSON.

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

func (c *cli) watch(ctx context.Context, p watchPlan, only selection) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	if c.output == "json" || !term.IsTerminal(c.stdout) {
		return c.printAgain(ctx, p, c.line)
	}
	w := watcher{cli: c, reader: c.client(), only: only}
	if c.env.Get("TERM") == "dumb" || !term.InForeground() {
		return c.printAgain(ctx, p, w.page)
	}
	if w.update(ctx); w.lost != nil {
		return c.explain(w.lost) // before the screen is touched
	}
	return w.show(ctx, p)
}

// line prints the status as a line of JSON.
func (c *cli) line(ctx context.Context) error {
	var body json.RawMessage
	if err := c.client().Get(ctx, "/v1/status", &body); err != nil {
		return c.explain(err)
	}
	return c.printJSON(body, "")
}

// printAgain prints the status as often as planned, and ends when it cannot.
func (c *cli) printAgain(ctx context.Context, p watchPlan, status func(context.Context) error) error {
	ticks := time.NewTicker(p.every)
	defer ticks.Stop()
	for printed := 1; ; printed++ {
		err := status(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil || printed == p.number:
			return err
		}
		select {
		case <-ticks.C:
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
	keys   *term.Keyboard
}

// askTimeout bounds one question for the status.
const askTimeout = 3 * time.Second

// update asks for the status. Without an answer the last status stays.
func (w *watcher) update(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	status, err := w.reader.Status(limited)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		if w.lost == nil {
			w.since = time.Now()
		}
		w.lost = err
		return
	}
	w.lost = w.only.apply(&status)
	w.status = status
}

// page updates the status, and prints it below the last one.
func (w *watcher) page(ctx context.Context) error {
	if w.update(ctx); w.lost != nil {
		return w.explain(w.lost)
	}
	if ctx.Err() != nil {
		return nil // the last status is no news
	}
	return w.write(renderWatch(w, w.view()) + "\n")
}

// show draws on the alternate screen until ctx ends, q is typed or enough updates were
// shown. Afterwards the terminal is as it was.
func (w *watcher) show(ctx context.Context, p watchPlan) (err error) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	w.keys = term.OpenKeyboard(leave)
	defer w.keys.Close()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGWINCH, syscall.SIGTSTP)
	defer signal.Stop(signals)
	if err := w.grab(); err != nil {
		return errors.Join(err, w.keys.Restore())
	}
	defer func() { err = errors.Join(err, w.restore()) }()
	return w.drawOn(ctx, p, signals)
}

// grab reads the keyboard and switches to the alternate screen.
func (w *watcher) grab() error {
	if err := w.keys.Grab(); err != nil {
		return fmt.Errorf("cannot read the keyboard: %w", err)
	}
	return w.write(term.Enter)
}

// restore sets the terminal to how it was before grab.
func (w *watcher) restore() error {
	return errors.Join(w.write(term.Leave), w.keys.Restore())
}

// drawOn draws at each tick, and when a signal says that the screen has changed.
func (w *watcher) drawOn(ctx context.Context, p watchPlan, signals <-chan os.Signal) error {
	ticks := time.NewTicker(p.every)
	defer ticks.Stop()
	for shown := 1; ; {
		if err := w.draw(); err != nil {
			return err
		}
		if shown == p.number {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
			w.update(ctx)
			shown++
		case s := <-signals:
			if s != syscall.SIGTSTP {
				continue
			}
			if err := w.suspend(); err != nil {
				return err
			}
		}
	}
}

func (w *watcher) draw() error {
	v := w.view()
	return w.write(term.Draw(renderWatch(w, v), term.Height(w.stdout)))
}

// suspend restores the terminal while this process is stopped.
func (w *watcher) suspend() error {
	if err := w.restore(); err != nil {
		return err
	}
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, syscall.SIGCONT)
	defer signal.Stop(resumed)
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return fmt.Errorf("cannot stop: %w", err)
	}
	<-resumed // any thread may be the one that the kernel stops first
	return w.grab()
}

// renderWatch writes the latest status and, if updates fail, why.
func renderWatch(w *watcher, v term.View) string {
	var b strings.Builder
	if w.lost != nil {
		v.Prose(&b, 0, term.Red, fmt.Sprintf("no answer since %s%s: %v", v.Clock(w.since), v.ZoneMark(), w.lost))
	}
	return b.String() + renderGlance(w.status, v)
}
