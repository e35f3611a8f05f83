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
	Resource               string // which of the upstream's limits the others tell of
	Reset                  string
	ResetIs                Encoding
}

// An Encoding is how a header writes the time of a reset.
type Encoding string

// The encodings.
const (
	Epoch    Encoding = "epoch"    // seconds since 1970
	Seconds  Encoding = "seconds"  // from now
	Duration Encoding = "duration" // from now: "581981.3s", "1h16m0.6s"
	RFC3339  Encoding = "rfc3339"
)

// left returns what the headers say of one limit.
func (h Headers) left(header http.Header) []Left {
	l := Left{Name: h.resource(header), Limit: h.amount(header, h.Limit), Used: h.amount(header, h.Used), Remaining: h.amount(header, h.Remaining)}
	if found := ratio.FindStringSubmatch(header.Get(h.Ratio)); h.Ratio != "" && found != nil {
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

var ratio = regexp.MustCompile(`\b(\d{1,16})/(\d{1,16})\b`)

func (h Headers) resource(header http.Header) string {
	if h.Resource == "" {
		return ""
	}
	return line(header.Get(h.Resource))
}

func (h Headers) amount(header http.Header, name string) Amount {
	if name == "" {
		return Amount{}
	}
	return amount(header.Get(name))
}

func amount(value string) Amount {
	if units, ok := whole(value); ok {
		return Known(units)
	}
	return Amount{}
}

// whole reads a number of units; what is behind a decimal point is dropped, because
// some upstreams write "599.0".
func whole(value string) (quota.Units, bool) {
	value = strings.TrimSpace(value)
	before, fraction, _ := strings.Cut(value, ".")
	units, err := strconv.ParseInt(before, 10, 64)
	if err != nil || strings.Trim(fraction, "0123456789") != "" || units < 0 || units > int64(quota.MaxUnits) {
		return 0, false
	}
	return quota.Units(units), true
}

// reset returns the time in the upstream's own header; zero without one.
func (h Headers) reset(header http.Header, now time.Time) (time.Time, error) {
	value := strings.TrimSpace(header.Get(h.Reset))
	if h.Reset == "" || value == "" {
		return time.Time{}, nil
	}
	switch h.ResetIs {
	case Epoch:
		return parseEpoch(value)
	case Seconds:
		return parseSeconds(value, now)
	case Duration:
		return parseDelay(value, now)
	default:
		return parseTime(value)
	}
}

// retryAfter reads a Retry-After: seconds, or a date.
func retryAfter(value string, now time.Time) (time.Time, error) {
	if value = strings.TrimSpace(value); value == "" {
		return time.Time{}, nil
	}
	if at, err := http.ParseTime(value); err == nil {
		return at, nil
	}
	return parseSeconds(value, now)
}

// secrets are the parameters of an address that hold one.
var secrets = regexp.MustCompile(`(?i)([?&](?:key|access_token|token|api_?key|client_secret)=)[^&\s"'<>\\]+`)

func parseEpoch(value string) (time.Time, error) {
	seconds, ok := whole(value)
	if !ok || seconds > 1<<40 {
		return time.Time{}, unreadable(value)
	}
	return time.Unix(int64(seconds), 0).UTC(), nil
}

func parseSeconds(value string, now time.Time) (time.Time, error) {
	if _, ok := whole(value); !ok {
		return time.Time{}, unreadable(value)
	}
	return parseDelay(value+"s", now)
}

func parseDelay(value string, now time.Time) (time.Time, error) {
	d, err := time.ParseDuration(strings.TrimSpace(value))
	if err != nil {
		return time.Time{}, unreadable(value)
	}
	return now.Add(d), nil
}

func parseTime(value string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return time.Time{}, unreadable(value)
	}
	return at, nil
}

func unreadable(value string) error {
	return fmt.Errorf("the answer refuses until %.60q, which cannot be read as a time", value)
}

// ParseHeader reads lines of "Name: value" as curl -i or -D write them: behind the line
// of a status, whose number is returned, else 0. Of several answers, of a proxy and of
// redirects, the last one counts.
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
			if status, err = statusOf(l); err != nil {
				return 0, nil, err
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

// statusOf reads "HTTP/1.1 429 Too Many Requests".
func statusOf(l string) (int, error) {
	words := strings.Fields(l)
	if len(words) > 1 {
		if status, err := strconv.Atoi(words[1]); err == nil {
			return status, nil
		}
	}
	return 0, fmt.Errorf("cannot find a status in %.60q", l)
}

// FormatHeader writes of a header the fields that speak of a quota by their names, as
// ParseHeader reads it: no cookie leaves with them.
func FormatHeader(h http.Header) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if slices.ContainsFunc(speaking, func(word string) bool { return strings.Contains(strings.ToLower(name), word) }) {
			fmt.Fprintf(&b, "%s: %s\n", name, h.Get(name))
		}
	}
	return b.String()
}

// speaking are parts of the names of fields that speak of a quota.
var speaking = []string{"limit", "quota", "remaining", "reset", "retry-after", "usage"}
