package api

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Credentials returns what is configured, with the state of the limits and what
// operations cost. Errors here and below are as for Do.
func (c *Client) Credentials(ctx context.Context) ([]Credential, error) {
	var list []Credential
	err := c.Get(ctx, "/v1/credentials", &list)
	return list, err
}

// Log returns a page of a credential's log.
func (c *Client) Log(ctx context.Context, credential string, q LogQuery) (LogPage, error) {
	var page LogPage
	err := c.Get(ctx, credentialPath(credential, "log", q.values()), &page)
	return page, err
}

// UsageQuery says which entries of a log are summed, and how they are told apart.
type UsageQuery struct {
	By    string // "job" (when empty), "region", "operation", "caller" or "hour"
	Since string // as LogQuery.Since; empty: 24h ago
	Most  int    // read at most so many entries, the newest; 0: all
}

// Usage tells who spent what. It may take longer than other answers where the log
// is long.
func (c *Client) Usage(ctx context.Context, credential string, q UsageQuery) (Usage, error) {
	var u Usage
	values := url.Values{}
	if q.By != "" {
		values.Set("by", q.By)
	}
	if q.Since != "" {
		values.Set("since", q.Since)
	}
	if q.Most > 0 {
		values.Set("most", strconv.Itoa(q.Most))
	}
	err := c.read(ctx, credentialPath(credential, "usage", values), &u)
	return u, err
}

// Why tells what would become of so many calls of an operation, and what stands in
// their way. It may take longer than other answers where the log is long.
func (c *Client) Why(ctx context.Context, credential, operation string, count int64) (Why, error) {
	var w Why
	values := url.Values{"operation": {operation}, "count": {strconv.FormatInt(count, 10)}}
	err := c.read(ctx, credentialPath(credential, "why", values), &w)
	return w, err
}

// Adjust books units that were spent elsewhere, or gives back what was not spent.
// It is not sent again when the answer is lost: that would book twice.
func (c *Client) Adjust(ctx context.Context, credential string, a Adjustment) (Adjusted, error) {
	var answer Adjusted
	err := c.Do(ctx, http.MethodPost, credentialPath(credential, "adjust", nil), a, &answer)
	return answer, err
}

// Reset empties a credential's log, so that every limit starts from zero.
func (c *Client) Reset(ctx context.Context, credential, note string) (Credential, error) {
	var answer Credential
	err := c.Do(ctx, http.MethodPost, credentialPath(credential, "reset", nil), Reset{Confirm: credential, Note: note}, &answer)
	return answer, err
}

func credentialPath(credential, what string, values url.Values) string {
	path := "/v1/credentials/" + url.PathEscape(credential) + "/" + what
	if len(values) > 0 {
		path += "?" + values.Encode()
	}
	return path
}

func (q LogQuery) values() url.Values {
	values := url.Values{}
	if q.After != "" {
		values.Set("after", q.After)
	}
	if q.Since != "" {
		values.Set("since", q.Since)
	}
	if q.Newest {
		values.Set("newest", "true")
	}
	if q.Most != 0 {
		values.Set("most", strconv.Itoa(q.Most))
	}
	return values
}

// read reads a resource that takes longer than a decision, once.
func (c *Client) read(ctx context.Context, path string, into any) error {
	c.once.Do(c.open)
	answer, err := c.roundTrip(ctx, turnTime+walkTime+writeTimeout, http.MethodGet, path, nil)
	if err != nil {
		return c.failure(ctx, err)
	}
	if answer.status != http.StatusOK {
		return answer.problem()
	}
	return answer.decode(into)
}

// FollowLog yields the entries that a query selects, and then those that are
// written, as they come. It ends without an error when the daemon shuts down;
// else with one, the context's where that has ended.
func (c *Client) FollowLog(ctx context.Context, credential string, q LogQuery) iter.Seq2[Entry, error] {
	values := q.values()
	values.Set("follow", "true")
	return func(yield func(Entry, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		resp, err := c.begin(ctx, cancel, credentialPath(credential, "log", values))
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer resp.Body.Close()
		for lines := json.NewDecoder(resp.Body); ; {
			var e Entry
			err := lines.Decode(&e)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(Entry{}, c.failure(ctx, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// begin asks for a stream: that it begins is not waited for longer than for any
// other answer.
func (c *Client) begin(ctx context.Context, cancel context.CancelCauseFunc, path string) (*http.Response, error) {
	c.once.Do(c.open)
	late := time.AfterFunc(attemptTimeout, func() { cancel(errNoAnswer) })
	defer late.Stop()
	resp, err := c.send(ctx, http.MethodGet, path, nil)
	if context.Cause(ctx) == errNoAnswer {
		err = &unreachableError{socket: c.socket, err: errNoAnswer}
	} else if err != nil {
		err = c.failure(ctx, err)
	}
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	defer resp.Body.Close()
	answer, err := readReply(resp)
	if err != nil {
		return nil, c.failure(ctx, err)
	}
	return nil, answer.problem()
}
