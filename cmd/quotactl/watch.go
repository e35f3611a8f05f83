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

const minEvery = 100 * time.Millisecond

// A watcher is the status that is on the screen, and how it is updated.
type watcher struct {
	*cli
	only   selection
	render func(jobsapi.Status, term.View) string
	every  time.Duration
	number int // of updates; 0: without an end

	reader jobsapi.Client
	status jobsapi.Status
	lost   error     // why the last update failed; nil if it did not
	since  time.Time // since when updates fail
}

// watch shows the status as often as asked for, and when the screen has another size. It ends
// early if it cannot.
func (w *watcher) watch(ctx context.Context) error {
	switch {
	case w.every < minEvery:
		return usageError("", "--every must be at least %v: %v", minEvery, w.every)
	case w.number < 0:
		return usageError("", "--number must not be negative: %d", w.number)
	case w.output == "value":
		return usageError("quotactl status -o value", "-o value is one integer, and --watch has no end")
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	w.reader = w.client()
	show, resized := w.line, make(chan os.Signal, 1)
	if w.output != "json" && term.IsTerminal(w.stdout) {
		show = w.page
		signal.Notify(resized, syscall.SIGWINCH)
		defer signal.Stop(resized)
	}
	ticks := time.NewTicker(w.every)
	defer ticks.Stop()
	for shown := 1; ; {
		err := show(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil || shown == w.number:
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

// line prints the status as a line of JSON.
func (w *watcher) line(ctx context.Context) error {
	body, _, err := w.only.read(ctx, w.reader, true)
	if err != nil {
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
	_, status, err := w.only.read(limited, w.reader, false)
	switch {
	case ctx.Err() != nil:
		return nil
	case err == nil:
		w.status = status
	case w.status.Version == "":
		return w.explain(err)
	case w.lost == nil:
		w.since = time.Now()
	}
	w.lost = err
	v := w.view()
	v.Drawn = os.Getenv("TERM") != "dumb"
	text := renderWatch(w, v)
	if !v.Drawn {
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
	v.Lines -= strings.Count(b.String(), "\n")
	return b.String() + w.render(w.status, v)
}
