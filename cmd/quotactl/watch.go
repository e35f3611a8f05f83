package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"quotad/cmd/quotactl/term"
	jobsapi "quotad/jobs/api"
)

// watchPause is the time between two updates.
const watchPause = 2 * time.Second

// A watcher is the status that is on the screen, and how it is updated.
type watcher struct {
	*cli
	only   selection
	render func(jobsapi.Status, term.View) string

	reader jobsapi.Client
	status jobsapi.Status
	lost   error     // why the last update failed; nil if it did not
	since  time.Time // since when updates fail
}

// watch shows the status every two seconds, and when the screen has another size. It ends early if it
// cannot.
func (w *watcher) watch(ctx context.Context) error {
	if w.output != "table" || !term.IsTerminal(w.stdout) || os.Getenv("TERM") == "dumb" {
		return usageError("quotactl status prints it once", "--watch redraws the screen of a terminal")
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	w.reader = w.client()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	ticks := time.NewTicker(watchPause)
	defer ticks.Stop()
	for {
		if err := w.draw(ctx); err != nil {
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

// askTimeout bounds one question for the status.
const askTimeout = 3 * time.Second

// draw updates the status and draws it over the last one. Without an answer the last status stays;
// without any status it returns an error.
func (w *watcher) draw(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, status, err := w.only.read(limited, w.reader, false)
	switch {
	case ctx.Err() != nil:
		return nil
	case err == nil:
		w.status = status
	case w.status.Version == "":
		return err
	case w.lost == nil:
		w.since = time.Now()
	}
	w.lost = err
	v := w.view()
	v.Drawn = true
	return w.write(v.Draw(renderWatch(w, v)))
}

// renderWatch writes the latest status and, if updates fail, why.
func renderWatch(w *watcher, v term.View) string {
	var b strings.Builder
	if w.lost != nil {
		v.Prose(&b, 0, term.Red, fmt.Sprintf("no answer since %s%s: %v", v.Clock(w.since), v.ZoneMark(), w.lost))
	}
	v.Lines -= strings.Count(b.String(), "\n")
	return b.String() + w.render(w.status, v)
}
