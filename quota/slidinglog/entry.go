package slidinglog

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"quotad/quota"
)

// escape writes a field: an empty one is a lone percent sign, which no escaped text is, and which unescape reads as
// nothing.
func escape(field string) string { return cmp.Or(url.QueryEscape(field), "%") }

func unescape(field string) string {
	text, _ := url.QueryUnescape(field)
	return text
}

// textOf writes an entry that is not in a log yet; doc.go has the grammar.
func textOf(e quota.Entry) string {
	charges, what := "", "book - 0"
	for _, c := range e.Charges {
		charges += fmt.Sprintf(" %s=%d", c.Limit, c.Units)
	}
	switch body := e.Body.(type) {
	case quota.Grant:
		what = fmt.Sprintf("grant %s %d", escape(body.Operation), body.Count)
	case quota.Settled:
		what = fmt.Sprintf("settle %s %d", body.Grant, body.To)
	case quota.Reset:
		what = "reset - 0"
	case quota.Changed:
		until := int64(0)
		if !body.Until.IsZero() {
			until = body.Until.UnixMicro()
		}
		what = fmt.Sprintf("close %s %d", body.Limit, until)
	}
	text := fmt.Sprintf("%s\n%s %s %s %s", charges, what, escape(e.By), escape(e.Region), escape(e.Note))
	if e.Outage {
		text += " outage"
	}
	return text
}

// parse reads an entry as the log has it, and reports whether it is one.
func parse(id string, at int64, text string) (e quota.Entry, ok bool) {
	lines := strings.SplitN(text, "\n", 3)
	if len(lines) < 2 {
		return e, false
	}
	e.ID, e.At = quota.ID(id), atMicros(at)
	e.Charges, ok = chargesOf(lines[0])
	if len(lines) > 2 && ok {
		e.Was, ok = chargesOf(strings.TrimPrefix(lines[2], "was"))
	}
	fields := strings.Split(lines[1], " ")
	if len(fields) < 6 || !ok {
		return e, false
	}
	n, err := strconv.ParseInt(fields[2], 10, 64)
	switch fields[0] {
	case "grant":
		e.Body = quota.Grant{Operation: unescape(fields[1]), Count: quota.Units(n)}
	case "book":
		e.Body = quota.Booked{}
	case "settle":
		e.Body = quota.Settled{Grant: quota.ID(fields[1]), To: quota.Units(n)}
	case "reset":
		e.Body = quota.Reset{}
	case "close":
		changed := quota.Changed{Limit: fields[1]}
		if n > 0 {
			changed.Until = atMicros(n)
		}
		e.Body = changed
	default:
		return e, false
	}
	e.By, e.Region, e.Note = unescape(fields[3]), unescape(fields[4]), unescape(fields[5])
	for _, field := range fields[6:] {
		if limit, would := strings.CutPrefix(field, "would="); would {
			e.Would = append(e.Would, limit)
		}
		e.Outage = e.Outage || field == "outage"
	}
	return e, err == nil
}

func chargesOf(line string) (charges []quota.Charge, ok bool) {
	for field := range strings.FieldsSeq(line) {
		name, value, _ := strings.Cut(field, "=")
		units, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, false
		}
		charges = append(charges, quota.Charge{Limit: name, Units: quota.Units(units)})
	}
	return charges, true
}

// closedBy reads the closing in effect, as a script answers it.
func closedBy(line string) (c quota.Closed) {
	fields := strings.Split(line, " ")
	if len(fields) < 5 {
		return c
	}
	until, _ := strconv.ParseInt(fields[0], 10, 64)
	since, _ := strconv.ParseInt(fields[1], 10, 64)
	return quota.Closed{Since: atMicros(since), Until: atMicros(until), By: unescape(fields[2]), Says: unescape(fields[4])}
}

func atMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }

// misdated returns the last time of a wrong clock, if the entry is a reset that ended one; 0: it is not.
func misdated(text string) (us int64) {
	if number, isReset := strings.CutPrefix(text, "\nreset - "); isReset {
		number, _, _ = strings.Cut(number, " ")
		us, _ = strconv.ParseInt(number, 10, 64) // what parse refuses ends nothing
	}
	return us
}

// keptAlways reports whether journals keep an entry for longer than windows: it is put back whatever its age.
func keptAlways(text string) bool {
	return strings.HasPrefix(text, "\nclose ") || strings.HasPrefix(text, "\nreset ")
}
