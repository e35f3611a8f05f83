package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"quotad/cmd/quotactl/term"
	"quotad/quota"
	"quotad/quota/api"
)

const acquireUsage = `Ask to spend before a call upstream. A grant debits the operation's cost at
once; a denial moves nothing and ends with exit code 75.

Usage:
  quotactl acquire OPERATION [FLAGS]

Flags:
` + requestUsage + `      --at-most           as many of --count as fit, at least one; the answer
                          says how many

With -o value the answer is what remains, in units.

Example:
  $ quotactl acquire videos.list && curl "$URL"
  granted    1 unit
  grant      youtube:1795260896123-0
  remaining  9,399 units in daily
`

func newAcquire(c *cli) *cobra.Command {
	var r api.AcquireRequest
	cmd := &cobra.Command{
		Use:               "acquire OPERATION",
		Short:             "ask to spend before a call; exit code 75 when denied",
		Long:              acquireUsage,
		Args:              arguments("OPERATION"),
		ValidArgsFunction: c.completeOperation,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Operation = args[0]
			d, err := c.acquire(cmd.Context(), r)
			if err != nil {
				return errors.Join(c.printRefusal(d), err)
			}
			granted := units(d.Units)
			if d.Count > 0 {
				granted = fmt.Sprintf("%s, %s", quota.Count(d.Count, "call", "calls"), granted)
			}
			return c.print(decisionAnswer(d, [][2]string{{"granted", granted}, {"grant", d.GrantID}}))
		},
	}
	requestFlags(cmd.Flags(), &r)
	cmd.Flags().BoolVar(&r.AtMost, "at-most", false, "as many as fit, at least one")
	completes(cmd, "credential", c.configured)
	return cmd
}

// printRefusal writes what a script may want of a refusal; people read the error.
func (c *cli) printRefusal(d api.Decision) error {
	if c.output == "table" || d.Reason == "" || c.output == "value" && len(d.Limits) == 0 {
		return nil
	}
	return c.print(decisionAnswer(d, nil))
}

// requestUsage describes the flags of requestFlags.
const requestUsage = `      --credential NAME   whose budget; may be left out inside a pass, and where
                          only one credential is configured
      --count N           how many calls at once (default 1)
      --request-id ID     names the upstream call: asking again with the same id
                          debits once
      --use-reserve       may spend the reserve (operators only)
      --optional          the pass can do without the call: a denial does not
                          end its run
`

// requestFlags declares the flags that acquire and exec share.
func requestFlags(f *pflag.FlagSet, r *api.AcquireRequest) {
	f.StringVar(&r.Credential, "credential", "", "whose budget")
	f.Int64Var(&r.Count, "count", 1, "how many calls at once")
	f.StringVar(&r.RequestID, "request-id", "", "names the upstream call")
	f.BoolVar(&r.UseReserve, "use-reserve", false, "may spend the reserve")
	f.BoolVar(&r.Optional, "optional", false, "a denial does not end the run")
}

// acquire asks for a decision. It returns a refusal as an error, beside the decision.
func (c *cli) acquire(ctx context.Context, r api.AcquireRequest) (api.Decision, error) {
	if r.Count < 1 {
		return api.Decision{}, usageError("", "--count must be a whole number from 1: %d", r.Count)
	}
	d, err := c.spender().Acquire(ctx, r)
	if errors.Is(err, quota.ErrOutcomeUnknown) {
		return d, inDoubt(c.explain(err), "it may be granted all the same: quotactl log shows it, and asking again with the same --request-id debits once")
	}
	if err != nil {
		return d, c.explain(err)
	}
	if !d.Granted {
		return d, c.refusal(d)
	}
	return d, nil
}

// A decisionBody is a decision as the daemon sent it: what remains is left out
// where it is not known.
type decisionBody struct {
	api.Decision
	Remaining *int64 `json:"remaining,omitempty"` // hides Decision's
}

func bodyOf(d api.Decision) decisionBody {
	body := decisionBody{Decision: d}
	if len(d.Limits) > 0 {
		body.Remaining = &d.Remaining
	}
	return body
}

// decisionAnswer tells a decision: people read the given lines first, then what
// remains and what is unusual about it.
func decisionAnswer(d api.Decision, lines [][2]string) answer {
	return answer{
		body:  bodyOf(d),
		value: func() (int64, error) { return d.Remaining, nil },
		table: func(v term.View) string { return term.Pairs(append(lines, particulars(d)...), v) },
	}
}

func particulars(d api.Decision) [][2]string {
	var lines [][2]string
	if len(d.Limits) > 0 {
		lines = append(lines, [2]string{"remaining", remainingText(d.Limits)})
	}
	if d.Replayed {
		lines = append(lines, [2]string{"replayed", "granted before under this request id; nothing new was debited"})
	}
	for _, short := range d.WouldDeny {
		lines = append(lines, [2]string{"would deny", shortageText(short) + " if it were enforced"})
	}
	if d.Mode != "" {
		lines = append(lines, [2]string{"mode", d.Mode})
	}
	return lines
}

// remainingText writes "9,400 units in daily, 3,900 units in search"; of a limit that denies
// nothing it says so.
func remainingText(limits []api.Limit) string {
	left := make([]string, len(limits))
	for i, limit := range limits {
		left[i] = units(limit.Remaining) + " in " + limit.Name
		if !limit.Refuses() {
			left[i] += ", which denies nothing now"
		}
	}
	return strings.Join(left, ", ")
}
