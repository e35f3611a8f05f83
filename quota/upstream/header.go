package upstream

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"quotad/quota"
)

// Headers names the fields by which an upstream says what is left. A name that is
// empty is not read; none has a default, because the same name means a time with one
// upstream and a number of seconds with another.
type Headers struct {
	Limit, Used, Remaining string
	Ratio                  string // a field that holds "used/limit": "32/40", "api-usage=18/5000"
	Resource               string // which of the upstream's limits the others describe
	Reset                  string
	ResetIs                Encoding
}

var ratio = regexp.MustCompile(`\b(\d{1,16})/(\d{1,16})\b`)

// left returns what the headers say of one limit, if anything.
func (h Headers) left(header http.Header) []Left {
	l := Left{
		Name: Line(header.Get(h.Resource)), Limit: amount(header.Get(h.Limit)),
		Used: amount(header.Get(h.Used)), Remaining: amount(header.Get(h.Remaining)),
	}
	if found := ratio.FindStringSubmatch(header.Get(h.Ratio)); found != nil {
		l.Used, l.Limit = amount(found[1]), amount(found[2])
	}
	if l.Limit.Known && l.Used.Known && !l.Remaining.Known {
		l.Remaining = Known(max(0, l.Limit.Units-l.Used.Units))
	}
	if !l.Limit.Known && !l.Used.Known && !l.Remaining.Known {
		return nil
	}
	return []Left{l}
}

// amount reads a whole number of units. It drops the fraction, because some upstreams write
// "599.0".
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

// read returns the time that a text stands for, RFC3339 unless e says otherwise; the zero time
// of an empty text.
func (e Encoding) read(text string, now time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return time.Time{}, nil
	}
	number := amount(text)
	switch {
	case e == Epoch && number.Known && number.Units <= 1<<40:
		return time.Unix(int64(number.Units), 0).UTC(), nil
	case e == Seconds && number.Known:
		return Duration.read(text+"s", now)
	case e == Duration:
		if d, err := time.ParseDuration(text); err == nil {
			return now.Add(d), nil
		}
	case e != Epoch && e != Seconds:
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("the answer refuses until %.60q, which cannot be read as a time", text)
}

// retryAfter reads a Retry-After: seconds, or a date.
func retryAfter(value string, now time.Time) time.Time {
	if at, err := http.ParseTime(strings.TrimSpace(value)); err == nil {
		value = at.Sub(now).String()
		return soon(Duration, value, now)
	}
	return soon(Seconds, value, now)
}

// ParseHeader reads lines of "Name: value" as curl -i or -D write them. It returns the number
// in the line of the status, or 0 without one. Of several answers, of a proxy and of redirects,
// the last one counts.
func ParseHeader(text string) (status int, h http.Header, err error) {
	h = make(http.Header)
	n := 0
	for l := range strings.Lines(text) {
		n++
		l = strings.TrimRight(l, "\r\n")
		name, value, ok := strings.Cut(l, ":")
		switch {
		case strings.HasPrefix(l, "HTTP/"):
			h = make(http.Header)
			var version string
			if _, err := fmt.Sscan(l, &version, &status); err != nil {
				return 0, nil, fmt.Errorf("cannot find a status in %.60q", l)
			}
		case strings.TrimSpace(l) == "":
		case !ok || name == "" || strings.ContainsAny(name, " \t"):
			return 0, nil, fmt.Errorf("line %d of the header is not \"Name: value\": %.60q", n, l)
		default:
			h.Add(name, strings.TrimSpace(value))
		}
	}
	return status, h, nil
}

// aboutQuota are parts of the names of fields that are about a quota.
var aboutQuota = []string{"limit", "quota", "remaining", "reset", "retry-after", "usage"}

// FormatHeader writes the fields of a header that are about a quota, judged by their names, as
// ParseHeader reads them. So no cookie leaves with them.
func FormatHeader(h http.Header) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if slices.ContainsFunc(aboutQuota, func(word string) bool { return strings.Contains(strings.ToLower(name), word) }) {
			fmt.Fprintf(&b, "%s: %s\n", name, h.Get(name))
		}
	}
	return b.String()
}
