package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"quotad/cmd/quotactl/term"
	"quotad/quota"
	"quotad/quota/api"
)

// A cli is what every command needs: where to read and write, and the flags
// that all of them understand.
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            term.Environment

	socket string // empty: api.FindSocket decides
	output string // "table", "json" or "value"
	color  string // "auto", "always" or "never"
	utc    bool   // write times in UTC instead of local time
}

// flags declares the flags that every command understands.
func (c *cli) flags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&c.socket, "socket", "", "path of quotad's socket")
	f.BoolVar(&c.utc, "utc", false, "write times in UTC")
	c.output, c.color = "table", "auto"
	chosen(root, choice{&c.output, []string{"table", "json", "value"}}, "output", "o")
	chosen(root, choice{&c.color, []string{"auto", "always", "never"}}, "color", "")
}

// chosen declares a flag whose value is one of a few words.
func chosen(root *cobra.Command, c choice, name, short string) {
	root.PersistentFlags().VarP(&c, name, short, strings.Join(c.words, ", "))
	completes(root, name, func(context.Context) ([]string, error) { return c.words, nil })
}

// reader returns a client for questions. A run token may only spend, so it is
// left out: whoever runs inside a pass may ask all the same.
func (c *cli) reader() *api.Client {
	return &api.Client{Socket: c.socketPath()}
}

// spender returns a client for acquire, settle and release: inside a pass it
// speaks for the pass.
func (c *cli) spender() *api.Client {
	return &api.Client{Socket: c.socketPath(), Token: c.env.Get(api.TokenEnv)}
}

func (c *cli) socketPath() string {
	return api.FindSocket(cmp.Or(c.socket, c.env.Get(api.SocketEnv)))
}

// view is how the answer may look, as of now.
func (c *cli) view() term.View {
	return term.NewView(time.Now(), c.stdout, c.env, c.color, c.utc)
}

// An answer is what a command has to tell, in each of the output formats.
type answer struct {
	body  any                      // for JSON: the API's own where there is one
	value func() (int64, error)    // for scripts: one bare integer
	table func(v term.View) string // for people
}

// print writes an answer in the format that was asked for.
func (c *cli) print(a answer) error {
	switch c.output {
	case "json":
		return c.printJSON(a.body)
	case "value":
		n, err := a.value()
		if err != nil {
			return err
		}
		return c.write(fmt.Sprintf("%d\n", n))
	default:
		return c.write(a.table(c.view()))
	}
}

// noInteger is the value of an answer that has none.
func noInteger(what string) func() (int64, error) {
	return func() (int64, error) {
		return 0, usageError("use -o table or -o json", "%s is not an integer", what)
	}
}

func (c *cli) printJSON(body any) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(body); err != nil {
		return fmt.Errorf("cannot encode the answer: %w", err)
	}
	return c.write(b.String())
}

// printLine writes one line of a stream of JSON values.
func (c *cli) printLine(body any) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
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

// A choice is a flag's value that is one of a few words.
type choice struct {
	value *string
	words []string
}

var _ pflag.Value = (*choice)(nil)

// Set accepts one of the words.
func (c *choice) Set(word string) error {
	if slices.Contains(c.words, word) {
		*c.value = word
		return nil
	}
	return fmt.Errorf("use one of %s", strings.Join(c.words, ", "))
}

func (c *choice) String() string { return *c.value }

// Type names the flag's value in generated texts.
func (c *choice) Type() string { return "word" }

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
