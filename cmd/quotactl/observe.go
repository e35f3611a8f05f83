package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/upstream"
)

const observeUsage = `Report what the upstream answered to a call. If the answer says that a quota is
exhausted, quotad closes that limit on all hosts until the upstream resets it,
or until the limit's own window is over. If the answer says how much is left,
quotad compares it with its own count. Other answers change nothing. For
operators, and for a pass with its run token, for its credential.

With -o value the answer is the seconds until the limit opens, 0 if it is open.

Example:
  $ curl -sS -D h -o b "$URL"
  $ quotactl observe search.list --header-file h --body b
  day   search is exhausted, opens in 9h 12m, at 08:00:00
  says  Quota exceeded for quota metric 'Search Queries' …
`

// An observed is an answer of the upstream, as the flags describe it.
type observed struct {
	api.Observation
	headerFile, bodyFile string
}

func newObserve(c *cli) *cobra.Command {
	var o observed
	cmd := command("observe OPERATION [FLAGS]\nobserve --grant GRANT [FLAGS]", "report what the upstream answered", observeUsage, func(ctx context.Context, args []string) error {
		if len(args) > 1 || (len(args) == 1) == (o.GrantID != "") {
			return usageError("see quotactl help observe", "quotactl observe takes OPERATION or --grant")
		}
		if len(args) == 1 {
			o.Operation = args[0]
		}
		if err := o.read(c.stdin); err != nil {
			return err
		}
		out, err := c.spender().Observe(ctx, o.Observation)
		return show(c, out, err, secondsClosed, observedPage)
	})
	cmd.Args = cobra.ArbitraryArgs
	cmd.Flags().Int64Var(&o.Status, "status", 0, "the answer's status `N`; may be left out if the file of --header-file begins with it, as curl -D writes it")
	cmd.Flags().StringVar(&o.headerFile, "header-file", "", "the `FILE` with the answer's header, as curl -D writes it; cookies and other secrets are not sent")
	cmd.Flags().StringVar(&o.bodyFile, "body", "", "the `FILE` with the answer's body, at most 65,536 bytes, as text; - reads the standard input")
	cmd.Flags().StringVar(&o.GrantID, "grant", "", "the `GRANT` that was spent on the call, instead of the operation")
	credentialFlag(cmd, &o.Credential)
	return cmd
}

// read reads the files that the flags name. It keeps only the fields of the header that may
// be about a quota, and the status.
func (o *observed) read(stdin io.Reader) (err error) {
	if o.headerFile != "" {
		text, err := readFile(o.headerFile, stdin)
		if err != nil {
			return err
		}
		status, header, err := upstream.ParseHeader(text)
		if err != nil {
			return usageError("", "%s: %v", o.headerFile, err)
		}
		if o.Status == 0 {
			o.Status = int64(status)
		}
		o.Header = upstream.FormatHeader(header)
	}
	if o.Status == 0 {
		return usageError("add --status N", "the status of the answer is missing")
	}
	if o.bodyFile == "" {
		return nil
	}
	o.Body, err = readFile(o.bodyFile, stdin)
	return err
}

// readFile reads a file that is no longer than a body may be.
func readFile(name string, stdin io.Reader) (string, error) {
	from := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer file.Close()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, upstream.MaxBody+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot read %s: %w", name, err)
	case len(text) > upstream.MaxBody:
		return "", usageError("an answer that speaks of a quota is short", "%s has more than %s", name, quota.Count(upstream.MaxBody, "byte", "bytes"))
	}
	if !utf8.Valid(text) {
		return "", usageError("curl --compressed decompresses an answer", "%s is not UTF-8 text", name)
	}
	return string(text), nil
}

func secondsClosed(out api.Observed) (int64, error) {
	if out.Closed == nil {
		return 0, nil
	}
	return int64(out.Closed.Until.Sub(out.Closed.Since).Seconds()), nil
}

func observedPage(out api.Observed, v term.View) string {
	return term.Pairs([][2]string{{out.Class, classText(out, v)}, {"says", v.Clean(out.Says)}}, v)
}

// classText says what an answer means, and what quotad did.
func classText(out api.Observed, v term.View) string {
	switch {
	case out.Closed != nil && out.Class == string(upstream.Day):
		return fmt.Sprintf("%s is exhausted, opens %s", out.Limit, v.When(out.Closed.Until))
	case out.Closed != nil:
		return fmt.Sprintf("%s is closed, opens %s", out.Limit, v.When(out.Closed.Until))
	}
	switch upstream.Class(out.Class) {
	case upstream.OK:
		return "it says nothing against the quota of " + out.Operation
	case upstream.Key:
		return "change the key, the project or its quota; nothing is closed"
	default:
		return "no limit is closed"
	}
}
