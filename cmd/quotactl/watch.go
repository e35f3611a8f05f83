package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"quotad/cmd/quotactl/wording"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
)

const (
	watchPause = 2 * time.Second // between two updates
	askTimeout = 3 * time.Second // of one
)

// watch shows the status every two seconds, and when the screen has another size. Without an answer the last status
// stays; without any status it returns an error.
func (c *cli) watch(ctx context.Context) error {
	if c.output != "table" || !wording.IsTerminal(c.stdout) || os.Getenv("TERM") == "dumb" {
		return usageError("quotactl status prints it once", "--watch redraws the screen of a terminal")
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	ticks := time.NewTicker(watchPause)
	defer ticks.Stop()
	w := watched{client: c.client()}
	for {
		w.update(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case w.status.Version == "":
			return w.lost
		}
		v := c.view()
		if err := c.write(draw(w.render(v), v)); err != nil {
			return err
		}
		select {
		case <-ticks.C:
		case <-resized:
		case <-ctx.Done():
			return nil
		}
	}
}

// Watched is the status that is on the screen.
type watched struct {
	client jobsapi.Client
	status jobsapi.Status
	lost   error     // why the last update failed; nil if it did not
	since  time.Time // since when updates fail
}

func (w *watched) update(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	status, err := w.client.Status(limited)
	if err == nil {
		w.status = status
	} else if w.lost == nil {
		w.since = time.Now()
	}
	w.lost = err
}

// render writes the latest status and, if updates fail, why.
func (w *watched) render(v wording.View) string {
	var b strings.Builder
	if w.lost != nil {
		v.Prose(&b, 0, wording.Red, fmt.Sprintf("no answer since %s%s: %v", v.Clock(w.since), v.ZoneMark(), w.lost))
	}
	return b.String() + renderStatus(w.status, v)
}

// Commands to a terminal.
const (
	goHome     = "\x1b[H"
	clearLine  = "\x1b[K" // from the cursor to the line's end
	clearBelow = "\x1b[J"
	wrapOff    = "\x1b[?7l"
	wrapOn     = "\x1b[?7h"
)

// draw returns the commands that draw a text over the screen, above an empty line for the cursor. They clear nothing before
// they draw over it, so nothing flickers, and leave nothing to restore.
func draw(text string, v wording.View) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if most := v.Lines - 1; len(lines) > most {
		shown := max(0, most-1)
		lines = append(lines[:shown:shown], "("+quota.Count(len(lines)-shown, "line", "lines")+" more)")
	}
	return wrapOff + goHome + strings.Join(append(lines, ""), clearLine+"\n") + clearBelow + wrapOn
}
