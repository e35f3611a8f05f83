package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"quotad/cmd/quotactl/term"
	jobsapi "quotad/jobs/api"
	"quotad/quota/api"
)

// A watcher is what stands on the screen, and how it came there.
type watcher struct {
	*cli
	reader jobsapi.Client
	status jobsapi.Status
	hourly map[string]api.Usage // by credential
	asked  time.Time            // when hourly was
	lost   error                // why the last look failed; nil when it did not
	since  time.Time            // when it began to
	keys   *term.Keyboard
}

// Bounds of one look: what a day holds changes slowly, and is dear to ask for.
const (
	lookTime    = 3 * time.Second
	hourlyEvery = time.Minute
)

// look asks for the status. What was known stays where there is no answer.
func (w *watcher) look(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	status, err := w.reader.Status(limited)
	if ctx.Err() != nil {
		return // nobody looks any more
	}
	if err != nil {
		if w.lost == nil {
			w.since = time.Now()
		}
		w.lost = err
		return
	}
	w.status, w.lost = status, nil
	if time.Since(w.asked) >= hourlyEvery {
		w.hourly, w.asked = w.cli.hourly(ctx, status.Credentials), time.Now()
	}
}

// page looks, and writes what it saw below what was written before.
func (w *watcher) page(ctx context.Context) error {
	if w.look(ctx); w.lost != nil {
		return w.explain(w.lost)
	}
	if ctx.Err() != nil {
		return nil // what was known is no news
	}
	return w.write(renderWatch(w, w.view()) + "\n")
}

// show draws on the alternate screen until it is told to end; however it ends, the
// terminal is as it was.
func (w *watcher) show(ctx context.Context, p watchPlan) (err error) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	w.keys = term.OpenKeyboard(leave)
	defer w.keys.Close()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGWINCH, syscall.SIGTSTP)
	defer signal.Stop(signals)
	if err := w.take(); err != nil {
		return errors.Join(err, w.keys.GiveBack())
	}
	defer func() { err = errors.Join(err, w.giveBack()) }()
	return w.drawOn(ctx, p, signals)
}

// take makes the terminal ours.
func (w *watcher) take() error {
	if err := w.keys.Take(); err != nil {
		return fmt.Errorf("cannot read the keyboard: %w", err)
	}
	return w.write(term.Enter)
}

// giveBack leaves the terminal as it was before take.
func (w *watcher) giveBack() error {
	return errors.Join(w.write(term.Leave), w.keys.GiveBack())
}

// drawOn draws again and again, and when a signal says that the screen changes.
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
			w.look(ctx)
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

// suspend gives the terminal back for as long as this process is stopped.
func (w *watcher) suspend() error {
	if err := w.giveBack(); err != nil {
		return err
	}
	goOn := make(chan os.Signal, 1)
	signal.Notify(goOn, syscall.SIGCONT)
	defer signal.Stop(goOn)
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return fmt.Errorf("cannot stop: %w", err)
	}
	<-goOn // any thread may be the one that the kernel stops first
	return w.take()
}
