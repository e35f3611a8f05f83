package upstream

import (
	"bufio"
	"fmt"
	"net/http"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
	"time"

	"quotad/quota"
)

// Headers names the fields by which an upstream says what is left. One that is empty is not read: none has a default,
// because the same name means a time with one upstream and a number of seconds with another.
type Headers struct {
	Limit     string   `toml:"limit"`
	Used      string   `toml:"used"`
	Remaining string   `toml:"remaining"`
	Resource  string   `toml:"resource"` // which of the upstream's limits the others describe
	Reset     string   `toml:"reset"`
	ResetIs   Encoding `toml:"reset_is" oneof:"epoch seconds duration rfc3339"`
}

// rateLimit finds name, remaining units and seconds in the field RateLimit: "daily";r=0;t=3600
// (draft-ietf-httpapi-ratelimit-headers).
var rateLimit = regexp.MustCompile(`"([^"]*)"[^,]*?;\s*r=(\d+)(?:[^,]*?;\s*t=(\d+))?`)

// left returns what the header says of the limits, if anything. Where fields list numbers, such as "100,1000", the
// limits have no name, and their sizes say which they are.
func (h Headers) left(header http.Header) (list []Left) {
	if header.Get(h.Limit)+header.Get(h.Used)+header.Get(h.Remaining)+header.Get("RateLimit") == "" {
		return nil // as most answers
	}
	var fields [3][]string
	for i, name := range []string{h.Limit, h.Used, h.Remaining} {
		fields[i] = strings.Split(header.Get(name), ",")
	}
	for i := range max(len(fields[0]), len(fields[1]), len(fields[2])) {
		var n [3]Amount
		for k, texts := range fields {
			text, _, _ := strings.Cut(append(texts[min(i, len(texts)):], "")[0], ";")
			n[k] = amount(text)
		}
		if n[0].Known && n[1].Known && !n[2].Known {
			n[2] = Known(max(0, n[0].Units-n[1].Units))
		}
		if n != [3]Amount{} {
			list = append(list, Left{Line(header.Get(h.Resource)), n[0], n[1], n[2]})
		}
	}
	for _, found := range rateLimit.FindAllStringSubmatch(header.Get("RateLimit"), 9) {
		list = append(list, Left{Name: Line(found[1]), Remaining: amount(found[2])})
	}
	return list
}

// reset returns when the header says that an exhausted limit resets; the zero time where it does not say.
func (h Headers) reset(header http.Header, now time.Time) time.Time {
	for _, found := range rateLimit.FindAllStringSubmatch(header.Get("RateLimit"), 9) {
		if found[2] == "0" {
			return Seconds.read(found[3], now)
		}
	}
	return h.ResetIs.read(header.Get(h.Reset), now)
}

// amount reads a whole number of units. It drops the fraction, because some upstreams write "599.0".
func amount(value string) Amount {
	before, fraction, _ := strings.Cut(strings.TrimSpace(value), ".")
	units, err := strconv.ParseInt(before, 10, 64)
	if err != nil || strings.Trim(fraction, "0123456789") != "" || units < 0 || units > int64(quota.MaxUnits) {
		return Amount{}
	}
	return Known(quota.Units(units))
}

// An Encoding is how an upstream writes the time of a reset.
type Encoding string

// The encodings.
const (
	Epoch    Encoding = "epoch"    // seconds since 1970
	Seconds  Encoding = "seconds"  // from now
	Duration Encoding = "duration" // from now: "581981.3s", "1h16m0.6s"
	RFC3339  Encoding = "rfc3339"
)

const (
	maxReset = 32 * 24 * time.Hour // how far ahead a reset may lie: no quota is of more than a month
	skew     = time.Minute         // by which the upstream's clock may be behind ours
)

// read returns the time that a text stands for. One that cannot be read or that no quota has is zero, as if it were
// absent: one that has passed, or that is more than a month away.
func (e Encoding) read(text string, now time.Time) (at time.Time) {
	text = strings.TrimSpace(text)
	number := amount(text)
	switch {
	case e == Epoch && number.Known:
		at = time.Unix(int64(number.Units), 0)
	case e == Seconds && number.Known:
		return Duration.read(text+"s", now)
	case e == Duration:
		if d, err := time.ParseDuration(text); err == nil {
			at = now.Add(d)
		}
	case e == RFC3339:
		at, _ = time.Parse(time.RFC3339, text)
	}
	if at.Before(now.Add(-skew)) || at.After(now.Add(maxReset)) {
		return time.Time{}
	}
	return at.UTC()
}

// retryAfter reads a Retry-After: seconds, or a date.
func retryAfter(value string, now time.Time) time.Time {
	if at, err := http.ParseTime(strings.TrimSpace(value)); err == nil {
		value = strconv.FormatInt(int64(at.Sub(now)/time.Second), 10)
	}
	return Seconds.read(value, now)
}

// ParseHeader reads lines of "Name: value" as curl -i or -D write them, and the number in the line of the status; 0:
// there is none. Of several answers, of a proxy and of redirects, the last one counts.
func ParseHeader(text string) (status int, h http.Header, err error) {
	if at := strings.LastIndex("\n"+text, "\nHTTP/"); at >= 0 {
		line, fields, _ := strings.Cut(text[at:], "\n")
		if _, err = fmt.Sscanf(line, "HTTP/%s %d", new(string), &status); err != nil {
			return 0, nil, fmt.Errorf("cannot find a status in %.60q", line)
		}
		text = fields
	}
	fields, err := textproto.NewReader(bufio.NewReader(strings.NewReader(strings.TrimSpace(text) + "\r\n\r\n"))).ReadMIMEHeader()
	if err != nil {
		return 0, nil, fmt.Errorf("the header is not lines of \"Name: value\": %.120s", err)
	}
	return status, http.Header(fields), nil
}
