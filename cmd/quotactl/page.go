package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/page"
)

const pageUsage = `
Serve a page that shows what needs you, what each limit has left and the jobs
with their last runs. The page updates itself. The command prints its address,
for your browser; Ctrl-C ends it.

The page is read-only. It asks quotad as the user who runs the command. As long
as it runs, every user of this machine can open it, and read the last lines that
failed passes printed. To read it from elsewhere, open a tunnel to the same
port: ssh -L 8042:127.0.0.1:8042.

Example:
  $ quotactl page --listen 127.0.0.1:8042
  http://127.0.0.1:8042/`

func newPage(c *cli) *cobra.Command {
	listen := ""
	cmd := command("page [FLAGS]", "the same in a browser, live", pageUsage, 0, 0, func(ctx context.Context, _ []string) error {
		if c.output != "table" {
			return usageError("quotactl status -o json", "a page is neither JSON nor one integer")
		}
		return c.page(ctx, listen)
	})
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "listen at `ADDRESS`, loopback only; port 0 is any free port")
	return cmd
}

// pageEvery is how often the page asks for the status.
const pageEvery = 2 * time.Second

func (c *cli) page(ctx context.Context, listen string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	if at, err := netip.ParseAddrPort(listen); err != nil || !at.Addr().IsLoopback() {
		return usageError("127.0.0.1:0 takes any free port; a tunnel brings it elsewhere: ssh -L 8042:127.0.0.1:8042",
			"--listen must be a loopback address and a port, as the page knows no passwords: %q", listen)
	}
	host, _ := os.Hostname()
	source := page.Source{Client: c.client(), Host: host, View: c.view}
	s, err := page.New(ctx, source.Look, pageEvery)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("cannot serve the page: %w", err)
	}
	if err := c.write("http://" + listener.Addr().String() + "/\n"); err != nil {
		return errors.Join(err, listener.Close())
	}
	return s.Serve(ctx, listener)
}
