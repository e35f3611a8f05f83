package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"quotad/quota/upstream"
)

// answered reads an answer before it is passed on: whether it was free, and what the upstream says of its quota. It
// changes what would lead a client past the proxy, and overwrites the key in the header of what is no good answer, and in
// the body of an error. The rest is passed on as it is.
func (x *exchange) answered(res *http.Response) error {
	x.wrote() // even if the upstream did not wait for the end of the request
	x.event.Status, x.free = res.StatusCode, slices.Contains(x.target.Free, res.StatusCode)
	x.rewriteLocations(res.Header)
	if x.target.Key != nil {
		x.target.Key.answered(x.key, res.StatusCode)
	}
	if res.StatusCode >= http.StatusMultipleChoices { // a redirect may repeat the query
		hideIn(res.Header, x.key)
	}
	isError := res.StatusCode >= http.StatusBadRequest
	answer := upstream.Answer{Status: res.StatusCode, Header: res.Header}
	if isError || x.target.ReadsAll && strings.Contains(res.Header.Get("Content-Type"), "json") {
		// A refusal is short. What is longer is passed on as it comes.
		begun, _ := io.ReadAll(io.LimitReader(res.Body, upstream.MaxBody)) // an error comes again
		if isError {
			begun = []byte(Hide(string(begun), x.key))
		}
		answer.Body = bytes.ToValidUTF8(begun, []byte("?"))
		answer.Body = answer.Body[:min(len(answer.Body), upstream.MaxBody)]
		if own := x.ownKeys(); isError && len(own) > 0 { // they go back to the client, and into nothing that quotad writes
			answer.Body, answer.Header = []byte(Hide(string(answer.Body), own...)), res.Header.Clone()
			hideIn(answer.Header, own...)
		}
		res.Body = &resumedBody{io.MultiReader(bytes.NewReader(begun), res.Body), res.Body}
	}
	x.observe(answer)
	return nil
}

// A resumedBody is a body of which the beginning was read.
type resumedBody struct {
	io.Reader
	io.Closer
}

// Hide overwrites keys in a text with as many asterisks, as they are and as addresses, JSON and HTML escape them, in
// upper and lower case.
func Hide(text string, keys ...string) string { return hide(spellings(keys), text) }

// hideIn overwrites keys in the values of a header.
func hideIn(h http.Header, keys ...string) {
	spelled := spellings(keys)
	for _, values := range h {
		for i, value := range values {
			values[i] = hide(spelled, value)
		}
	}
}

func hide(spelled *regexp.Regexp, text string) string {
	return spelled.ReplaceAllStringFunc(text, func(match string) string { return strings.Repeat("*", len(match)) })
}

// spellings matches the longest of keys, in whatever way it is spelled.
func spellings(keys []string) *regexp.Regexp {
	all := make([]string, len(keys))
	for i, key := range keys {
		for _, r := range key {
			c := string(r)
			ways := []string{url.QueryEscape(c), url.PathEscape(c), html.EscapeString(c), `\` + c, c,
				fmt.Sprintf(`\u%04x`, r), fmt.Sprintf("&#%d;", r), fmt.Sprintf("&#x%x;", r)}
			for n := range ways {
				ways[n] = regexp.QuoteMeta(ways[n])
			}
			all[i] += "(?:" + strings.Join(ways, "|") + ")"
		}
	}
	spelled := regexp.MustCompile("(?i:" + strings.Join(all, "|") + ")")
	spelled.Longest()
	return spelled
}

// withoutKey returns an error whose text does not hold the key.
func (x *exchange) withoutKey(err error) error {
	if text := Hide(err.Error(), append(x.ownKeys(), x.key)...); text != err.Error() {
		return errors.New(text)
	}
	return err
}

var namesKey = regexp.MustCompile(`(?i)key|auth|token|secret|cookie|password|sig`)

// ownKeys returns what a client may have sent as a key of its own. A word such as Bearer is none.
func (x *exchange) ownKeys() (keys []string) {
	query, _ := url.ParseQuery(x.query)
	for _, fields := range []map[string][]string{x.header, query} {
		for name, values := range fields {
			for _, value := range values {
				for _, word := range append(strings.Fields(value), keysIn(value)...) {
					if namesKey.MatchString(name) && len(word) >= 8 {
						keys = append(keys, word)
					}
				}
			}
		}
	}
	return keys
}

// rewriteLocations has addresses of the upstream lead through the proxy.
func (x *exchange) rewriteLocations(h http.Header) {
	for _, name := range []string{"Location", "Content-Location", "Link"} {
		for i, value := range h[name] {
			there, here := x.target.Upstream, x.proxy.Root()+"/"
			if !x.keyed {
				here += x.token + "/" + x.target.Credential + "/"
			}
			root := there.Scheme + "://" + there.Host + strings.TrimSuffix(there.EscapedPath(), "/") + "/"
			h[name][i] = strings.ReplaceAll(value, root, here)
		}
	}
}

// observeTime is how long observing an answer may delay it.
const observeTime = 2 * time.Second

// observe reports an answer to the observer before the client has it, so that the client's next request is decided by
// it.
func (x *exchange) observe(answer upstream.Answer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), observeTime)
	defer cancel()
	out, err := x.proxy.config.Observer.Observe(ctx, upstream.Observation{
		Credential: x.target.Credential, Operation: x.operation, Answer: answer, Caller: x.bearer.Caller,
	})
	x.event.ObserveErr = err
	x.free = x.free || err == nil && out.Class != upstream.OK && x.target.RefusedFree
	switch {
	case answer.Status >= http.StatusInternalServerError && out.Class == upstream.OK: // its own trouble
		x.event.Silent = fmt.Sprintf("%s answers %d", x.target.Credential, answer.Status)
		x.proxy.config.Tokens.Refused(x.token, x.event.Silent)
	case err == nil:
		out.Report(x.token, x.proxy.config.Tokens)
	}
}
