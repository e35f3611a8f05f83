package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"quotad/cmd/ytfetch/upstream"
)

const (
	callTimeout = 30 * time.Second // of one call, its body included
	maxAnswer   = 16 << 20         // bytes of an answer; a real page of 50 has some 200 kB
	perPage     = 50               // the most that a call gives for its units
)

// A youtube calls the API. The key travels in the URL, as documented; whatever
// it returns is free of both.
type youtube struct {
	base   string
	key    string
	client *http.Client
}

// A page is one page of a chart, or of what a query finds, its items as upstream wrote them.
type page struct {
	Next  string            `json:"nextPageToken"` // empty: the last page
	Items []json.RawMessage `json:"items"`
	Found []string          `json:"-"` // what a query finds, by id, of which Items has those that were new; nil: no query was asked
	left  int64             // units, after the last call for it
}

// unknownLeft is what is left after a call for which the pass asked for no units.
const unknownLeft = -1

// The operations that ytfetch calls, as quotad's configuration names them.
const (
	videosList = "videos.list"
	searchList = "search.list"
)

// A request is an upstream call that may be repeated.
type request struct {
	operation string
	query     url.Values
}

const videoParts = "snippet,contentDetails,statistics"

// chartPage asks for the page of a region's chart that token names, the first one if it is
// empty.
func chartPage(region, token string) request {
	return request{videosList, url.Values{
		"part": {videoParts}, "chart": {"mostPopular"},
		"regionCode": {region}, "maxResults": {strconv.Itoa(perPage)}, "pageToken": {token},
	}}
}

// searchPage asks for a page of what a query finds in a region, the newest videos first.
func searchPage(region string, at place) request {
	return request{searchList, url.Values{
		"part": {"snippet"}, "q": {at.query}, "type": {"video"}, "order": {"date"}, "regionCode": {region},
		"publishedAfter": {at.after.UTC().Format(time.RFC3339)}, "publishedBefore": {at.chart.UTC().Format(time.RFC3339)},
		"maxResults": {strconv.Itoa(perPage)}, "pageToken": {at.token},
	}}
}

// videosByID asks for at most perPage videos. One that is gone is not among the answers.
func videosByID(ids []string) request {
	return request{videosList, url.Values{"part": {videoParts}, "id": {strings.Join(ids, ",")}}}
}

// connect returns the client of the API, or of the built-in upstream.
func connect(o options) *youtube {
	if o.sample {
		return newYouTube("http://sample"+upstream.Path, "sample", upstream.New(upstream.Config{}))
	}
	return newYouTube(o.baseURL, o.key, network())
}

// network returns a transport that never sends a request twice. On a connection
// that is used again, net/http repeats a GET whose answer was lost: upstream
// would charge twice for one grant.
func network() *http.Transport {
	return &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true}
}

func newYouTube(base, key string, transport http.RoundTripper) *youtube {
	return &youtube{
		base: strings.TrimSuffix(base, "/"), key: key,
		client: &http.Client{
			Transport: transport,
			Timeout:   callTimeout,
			// A redirect would carry the key to the host that it names.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// send makes one call. Every error is a *callError.
func (y *youtube) send(ctx context.Context, r request) (page, error) {
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	status, header, body, err := y.get(ctx, "/"+strings.TrimSuffix(r.operation, ".list"), r.query)
	switch {
	case err != nil && status == 0 && !connected.Load():
		return page{}, &callError{class: unsent, err: y.clean(err)}
	case err != nil:
		return page{}, &callError{class: transient, status: status, err: y.clean(err)}
	case status != http.StatusOK:
		failed := classify(status, header, body, time.Now())
		failed.message = y.hide(failed.message)
		return page{}, failed
	}
	p, err := readPage(body)
	if err == nil && r.operation == searchList {
		p.Found, err = idsOf(p.Items)
	}
	if err != nil {
		return page{}, &callError{class: transient, status: status, err: err}
	}
	return p, nil
}

// readPage refuses what is JSON but no page: an empty chart has empty items.
func readPage(body []byte) (page, error) {
	var p page
	if err := json.Unmarshal(body, &p); err != nil {
		return page{}, fmt.Errorf("not a page of videos: %w", err)
	}
	if p.Items == nil {
		return page{}, errors.New("not a page of videos: it has no items")
	}
	return p, nil
}

// idsOf returns the ids of what a query finds. An id goes into a bookmark and into the next
// call: one of other characters than upstream's is refused.
func idsOf(results []json.RawMessage) ([]string, error) {
	ids := make([]string, 0, len(results))
	for _, raw := range results {
		var result struct {
			ID struct {
				VideoID string `json:"videoId"`
			} `json:"id"`
		}
		if err := json.Unmarshal(raw, &result); err != nil {
			return nil, fmt.Errorf("not a page of search results: %w", err)
		}
		id := result.ID.VideoID
		if id == "" || len(id) > 20 || strings.TrimLeft(id, idCharacters) != "" {
			return nil, fmt.Errorf("not a page of search results: %q is not the id of a video", id)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

const idCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

// get returns status 0 when no answer came.
func (y *youtube) get(ctx context.Context, path string, query url.Values) (status int, header http.Header, body []byte, err error) {
	if query.Get("pageToken") == "" {
		query.Del("pageToken")
	}
	if y.key != "" {
		query.Set("key", y.key)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, y.base+path+"?"+query.Encode(), nil)
	if err != nil {
		return 0, nil, nil, err
	}
	response, err := y.client.Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return response.StatusCode, response.Header, body, err
}

// clean takes the URL, and so the key, out of a network error.
func (y *youtube) clean(err error) error {
	var withURL *url.Error
	if errors.As(err, &withURL) {
		err = withURL.Err
	}
	return errors.New(y.hide(err.Error()))
}

// hide takes the key out of a text.
func (y *youtube) hide(text string) string {
	if y.key == "" {
		return text
	}
	return strings.ReplaceAll(text, y.key, "[key]")
}
