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

// watch shows the status every two seconds. Without an answer the last status stays, below an error; without any status
// it returns the error.
func (c *cli) watch(ctx context.Context) error {
	if c.output != "table" || !wording.IsTerminal(c.stdout) || os.Getenv("TERM") == "dumb" {
		return usageError("quotactl status prints it once", "--watch redraws the screen of a terminal")
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	client, shown := c.client(), jobsapi.Status{}
	for answered := time.Now(); ; {
		status, err := client.Status(ctx)
		v, lost := c.view(), ""
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			shown, answered = status, v.Now
		case shown.Version == "":
			return err
		default:
			lost = v.Paint(wording.Red, v.Clean(fmt.Sprintf("no answer since %s: %v", v.Clock(answered), err))) + "\n"
		}
		if err := c.write(draw(lost+renderStatus(shown, v), v.Lines)); err != nil {
			return err
		}
		if !quota.Sleep(ctx, 2*time.Second) {
			return nil
		}
	}
}

// draw returns what draws a text from the top of a screen, above an empty line for the cursor. It clears nothing before
// it draws over it, so nothing flickers.
func draw(text string, lines int) string {
	const goHome, clearLine, clearBelow = "\x1b[H", "\x1b[K", "\x1b[J"
	shown := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if room := max(1, lines-1); len(shown) > room {
		shown = append(shown[:room-1], "("+quota.Count(len(shown)-room+1, "line", "lines")+" more)")
	}
	return goHome + strings.Join(append(shown, ""), clearLine+"\n") + clearBelow
}
