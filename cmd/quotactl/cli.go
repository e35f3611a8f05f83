package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
)

// A cli is what every command needs: where to read and write, and the flags that all of
// them accept.
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	socket string // empty: api.FindSocket decides
	output string // "table", "json" or "value"
	utc    bool   // print times in UTC instead of local time
}

// flags declares the flags that every command accepts.
func (c *cli) flags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.SortFlags = false
	f.StringVar(&c.socket, "socket", "", "the `PATH` of quotad's socket (default: $QUOTAD_SOCKET, then /run/quotad.sock, then ./.quotad/quotad.sock)")
	c.output = "table"
	forms := []string{"table", "json", "value"}
	f.FuncP("format", "o", "`FORM` is table (for people, the default), json (the API's own body) or value (one bare integer)", func(form string) error {
		if !slices.Contains(forms, form) {
			return fmt.Errorf("use one of %s", strings.Join(forms, ", "))
		}
		c.output = form
		return nil
	})
	completes(root, "format", words(forms))
	f.BoolVar(&c.utc, "utc", false, "print and read times in UTC instead of local time")
	f.BoolP("help", "h", false, "the usage of a command")
}

// command returns a command by how it is called, its line in the list, its text, and what it does.
func command(use, short, long string, do func(ctx context.Context, args []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Long: long, RunE: func(cmd *cobra.Command, args []string) error {
		return do(cmd.Context(), args)
	}}
}

// change returns a command whose answer is not an integer. It says so before it changes anything.
func (c *cli) change(use, short, long string, do func(ctx context.Context, args []string) error) *cobra.Command {
	return command(use, short, long, func(ctx context.Context, args []string) error {
		if c.output == "value" {
			return noInteger()
		}
		return do(ctx, args)
	})
}

// client returns a client for questions and for operators. It sends no run token: a token
// may only spend, and a caller inside a pass may also ask.
func (c *cli) client() jobsapi.Client {
	return jobsapi.Client{Client: &api.Client{Socket: c.socketPath()}}
}

// spender returns a client for acquire, settle and observe. Inside a pass it acts
// for the pass.
func (c *cli) spender() *api.Client {
	return &api.Client{Socket: c.socketPath(), Token: os.Getenv(api.TokenEnv)}
}

func (c *cli) socketPath() string {
	return api.FindSocket(cmp.Or(c.socket, os.Getenv(api.SocketEnv)))
}

// credential returns the named credential, else that of the pass, else the only one that
// the daemon has.
func (c *cli) credential(named string) string {
	return cmp.Or(named, os.Getenv("QUOTAD_CREDENTIAL"), api.OnlyCredential)
}

// credentialBefore returns the credential that stands before the last n arguments, or the one
// that is meant if there is none.
func (c *cli) credentialBefore(args []string, n int) string {
	return c.credential(strings.Join(args[:len(args)-n], ""))
}

// view says how the answer may look now.
func (c *cli) view() term.View {
	return term.NewView(time.Now(), c.stdout, c.utc)
}

// show prints what a command was answered, unless that is an error, in the format that the
// user asked for: the body as JSON, which is the API's own where there is one, one
// integer for scripts (a nil value: the answer has none), or a table for people.
func show[T any](c *cli, body T, err error, value func(T) (int64, error), table func(T, term.View) string) error {
	switch {
	case err != nil:
		return err
	case c.output == "json":
		return c.printJSON(body, "  ")
	case c.output != "value":
		return c.write(table(body, c.view()))
	case value == nil:
		return noInteger()
	}
	n, err := value(body)
	if err != nil {
		return err
	}
	return c.write(strconv.FormatInt(n, 10) + "\n")
}

// noInteger refuses -o value where the answer is not an integer.
func noInteger() error { return usageError("use -o table or -o json", "the answer is not an integer") }

// length is the integer for scripts of a list.
func length[T any](list []T) (int64, error) { return int64(len(list)), nil }

// printJSON writes a value of JSON, on one line unless there is an indent.
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

// parseUnits reads a whole number as people write it: "1200", "+1,200", "-1_200".
func parseUnits(text string) (n int64, ok bool) {
	if !writtenNumber.MatchString(text) {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.NewReplacer(",", "", "_", "", "+", "").Replace(text), 10, 64)
	return n, err == nil
}

var writtenNumber = regexp.MustCompile(`^[+-]?([0-9]+|[0-9]{1,3}([,_][0-9]{3})+)$`)
