package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/wording"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
)

// A cli is what every command needs: where to write, and the flags that all of them accept.
type cli struct {
	stdout, stderr io.Writer

	socket string // empty: api.FindSocket decides
	output string // "table", "json" or "value"
	began  bool   // the command line is understood
}

// flags declares the flags that every command accepts.
func (c *cli) flags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&c.socket, "socket", "", "the `PATH` of quotad's socket (default $QUOTAD_SOCKET, then /run/quotad.sock, then ./.quotad/quotad.sock)")
	f.StringVarP(&c.output, "format", "o", "table", "`FORM` is table, json, or value of one limit")
}

// begin checks what all commands accept, once arguments and flags are read and before anything is done.
func (c *cli) begin(cmd *cobra.Command, args []string) error {
	switch c.began = true; c.output {
	case "table", "json":
	case "value":
		if cmd.Name() != "status" || len(args) == 0 {
			return usageError("elsewhere jq reads -o json",
				"-o value is one integer: quotactl status CREDENTIAL LIMIT -o value")
		}
	default:
		return usageError("use table, json or value", "unknown form %q", c.output)
	}
	return nil
}

// command returns a command by how it is called, its line in the list, its text, how many arguments it takes, and what it
// does.
func command(use, short, long string, from, to int, do func(ctx context.Context, args []string) error) *cobra.Command {
	count := func(_ *cobra.Command, args []string) error {
		if n := len(args); n < from || n > to {
			return usageError("quotactl "+use, "wrong number of arguments: %d", n)
		}
		return nil
	}
	return &cobra.Command{
		Use: use, Short: short, Long: strings.TrimSpace(long), Args: count, DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error { return do(cmd.Context(), args) },
	}
}

// client returns a client for questions and for operators. It sends no run token: a token may only spend, and a caller
// inside a pass may also ask.
func (c *cli) client() jobsapi.Client {
	return jobsapi.Client{Client: &api.Client{Socket: c.socketPath()}}
}

// spender returns a client for acquire and settle. Inside a pass it acts for the pass.
func (c *cli) spender() *api.Client {
	return &api.Client{Socket: c.socketPath(), Token: os.Getenv(api.TokenEnv)}
}

func (c *cli) socketPath() string {
	return api.FindSocket(cmp.Or(c.socket, os.Getenv(api.SocketEnv)))
}

// credentialBefore returns the credential that stands before the last n arguments, else that of the pass, else the only
// one that the daemon has.
func credentialBefore(args []string, n int) string {
	return cmp.Or(strings.Join(args[:len(args)-n], ""), os.Getenv("QUOTAD_CREDENTIAL"), api.OnlyCredential)
}

// view says how the answer may look now.
func (c *cli) view() wording.View {
	return wording.NewView(time.Now(), c.stdout)
}

// show prints what a command was answered, unless that is an error: the body as JSON, or a table for people.
func show[T any](c *cli, body T, err error, table func(T, wording.View) string) error {
	switch {
	case err != nil:
		return err
	case c.output == "json":
		return c.printJSON(body, "  ")
	}
	return c.write(table(body, c.view()))
}

func (c *cli) printJSON(body any, indent string) error {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(body); err != nil {
		return fmt.Errorf("cannot encode the answer: %w", err)
	}
	return c.write(b.String())
}

func (c *cli) write(text string) error {
	if _, err := io.WriteString(c.stdout, text); err != nil {
		return fmt.Errorf("cannot write the answer: %w", err)
	}
	return nil
}

// units writes an amount with its noun: "1 unit", "4,120 units".
func units(n int64) string { return quota.Units(n).Text() }

// parseUnits reads a whole number from least as people write it: "1200", "1,200", "1_200".
func parseUnits(text string, least int64) (n int64, ok bool) {
	n, err := strconv.ParseInt(strings.NewReplacer(",", "", "_", "").Replace(text), 10, 64)
	return n, err == nil && n >= least && writtenNumber.MatchString(text)
}

var writtenNumber = regexp.MustCompile(`^([0-9]+|[0-9]{1,3}([,_][0-9]{3})+)$`)
