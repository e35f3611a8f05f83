package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"quotad/cmd/ytfetch/upstream"
	"quotad/quota"
)

const (
	callTimeout = 30 * time.Second // of one call, its body included
	maxAnswer   = 16 << 20         // bytes of an answer; a real page of 50 has some 200 kB
	perPage     = 50               // the most that a call gives for its units
	videoParts  = "snippet,contentDetails,statistics"
)

// A page is one page of a chart, or of what a query finds, its items as upstream wrote them.
type page struct {
	Next  string            `json:"nextPageToken"` // empty: the last page
	Items []json.RawMessage `json:"items"`
	left  int64             // units, after the call for it
}

// A request is an upstream call. Its operation is named as in quotad's configuration.
type request struct {
	operation string
	query     url.Values
}

// chartPage asks for the page of a region's chart that token names, the first one if it is empty.
func chartPage(region, token string) request {
	r := request{"videos.list", url.Values{
		"part": {videoParts}, "chart": {"mostPopular"}, "regionCode": {region}, "maxResults": {strconv.Itoa(perPage)},
	}}
	if token != "" {
		r.query.Set("pageToken", token)
	}
	return r
}

// searchPage asks for the newest videos that a query finds in a region.
func searchPage(region, query string, after time.Time) request {
	return request{"search.list", url.Values{
		"part": {"snippet"}, "q": {query}, "type": {"video"}, "order": {"date"}, "regionCode": {region},
		"publishedAfter": {after.UTC().Format(time.RFC3339)}, "maxResults": {strconv.Itoa(perPage)},
	}}
}

// videosByID asks for at most perPage videos. One that is gone is not among the answers.
func videosByID(ids []string) request {
	return request{"videos.list", url.Values{"part": {videoParts}, "id": {strings.Join(ids, ",")}}}
}

// idsOf returns the ids of what a query finds.
func idsOf(results []json.RawMessage) (ids []string, err error) {
	for _, raw := range results {
		var result struct{ ID struct{ VideoID string } }
		err := json.Unmarshal(raw, &result)
		if id := result.ID.VideoID; err != nil || id == "" || strings.ContainsAny(id, ", ") {
			return nil, fmt.Errorf("not a page of search results: %.60q is not the id of a video", id)
		}
		ids = append(ids, result.ID.VideoID)
	}
	return ids, nil
}

// A callError says why a call brought no page.
type callError struct {
	unsent          bool // the call is not spent
	status          int  // 0: no answer came
	header          http.Header
	body            []byte
	reason, message string // of the documented form of an error answer
	err             error  // of the network, or of reading the answer; nil: upstream answered with an error
}

func (e *callError) Error() string {
	switch {
	case e.unsent:
		return fmt.Sprintf("cannot reach upstream: %v", e.err)
	case e.err != nil:
		return fmt.Sprintf("upstream was called but sent no page: %v", e.err)
	}
	return fmt.Sprintf("upstream answered %d %s: %s", e.status, e.reason, e.message)
}

// isStale reports whether upstream does not accept a page token any more.
func isStale(err error) bool {
	var failed *callError
	return errors.As(err, &failed) && failed.reason == "invalidPageToken"
}

// connect returns the client of the API, or of the built-in upstream. On a connection that is used again, net/http
// would repeat a GET whose answer was lost, and upstream charge twice for one grant. A redirect would carry the key to
// the host that it names.
func connect(sample bool) *http.Client {
	client := &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true},
		Timeout:       callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if sample {
		client.Transport = upstream.New(upstream.Config{})
	}
	return client
}

// send makes one call. The key travels in the URL, as documented; no error names either. Every error is a *callError.
func (p *pass) send(ctx context.Context, r request) (got page, err error) {
	r.query.Set("key", p.key)
	failed := &callError{}
	address := strings.TrimSuffix(p.base, "/") + "/" + strings.TrimSuffix(r.operation, ".list") + "?" + r.query.Encode()
	err = p.read(ctx, address, failed)
	var dialed *net.OpError
	var withURL *url.Error
	if failed.unsent = errors.As(err, &dialed) && dialed.Op == "dial"; errors.As(err, &withURL) {
		err = withURL.Err
	}
	if err == nil && failed.status == http.StatusOK {
		if err = json.Unmarshal(failed.body, &got); err == nil && got.Items != nil { // an empty chart has empty items
			return got, nil
		}
		err = errors.New("it is not a page of videos")
	}
	if err != nil {
		failed.err = errors.New(p.printable(err.Error()))
		return page{}, failed
	}
	var said struct {
		Error struct {
			Message string
			Errors  []struct{ Reason string }
		}
	}
	_ = json.Unmarshal(failed.body, &said) // what has another form is judged by its status
	failed.message = p.printable(said.Error.Message)
	if len(said.Error.Errors) > 0 {
		failed.reason = p.printable(said.Error.Errors[0].Reason)
	}
	return page{}, failed
}

// read reads an answer.
func (p *pass) read(ctx context.Context, address string, answer *callError) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer.status, answer.header = response.StatusCode, response.Header
	answer.body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return err
}

// printable makes one short line of a text from outside, without the key and without commands to a terminal.
func (p *pass) printable(text string) string {
	return quota.Clipped(strings.ReplaceAll(text, p.key, "[key]"), 400)
}
