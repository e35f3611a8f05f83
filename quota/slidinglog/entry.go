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

// The text of an entry is for scripts and people; README.md has its grammar. Line 1 is what it charges, line 2 what it
// is, and a settled grant has a line 3 with what it was charged.

// escape writes a field: an empty one is a lone percent sign, which no escaped text is, and which unescape reads as
// nothing.
func escape(field string) string { return cmp.Or(url.QueryEscape(field), "%") }

func unescape(field string) string {
	text, _ := url.QueryUnescape(field)
	return text
}

// textOf writes an entry that is not in a log yet.
func textOf(e quota.Entry) string {
	var text strings.Builder
	for _, c := range e.Charges {
		fmt.Fprintf(&text, " %s=%d", c.Limit, c.Units)
	}
	switch body := e.Body.(type) {
	case quota.Grant:
		fmt.Fprintf(&text, "\ngrant %s %d", escape(body.Operation), body.Count)
	case quota.Booked:
		text.WriteString("\nbook - 0")
	case quota.Settled:
		fmt.Fprintf(&text, "\nsettle %s %d", body.Grant, body.To)
	case quota.Reset:
		text.WriteString("\nreset - 0")
	case quota.Changed:
		until := int64(0)
		if body.Kind() == quota.KindClosing {
			until = body.Until.UnixMicro()
		}
		fmt.Fprintf(&text, "\nclose %s %d", body.Limit, until)
	}
	fmt.Fprintf(&text, " %s %s %s", escape(e.By), escape(e.Region), escape(e.Note))
	if e.Outage {
		text.WriteString(" outage")
	}
	return text.String()
}

// parse reads an entry as the log has it, and reports whether it is one.
func parse(id string, at int64, text string) (e quota.Entry, ok bool) {
	lines := strings.Split(text, "\n")
	if len(lines) < 2 {
		return e, false
	}
	e.ID, e.At = quota.ID(id), atMicros(at)
	e.Charges, ok = chargesOf(lines[0])
	if len(lines) > 2 {
		was, isWas := strings.CutPrefix(lines[2], "was")
		charges, fine := chargesOf(was)
		e.Was, ok = charges, ok && isWas && fine
	}
	fields := strings.Split(lines[1], " ")
	if len(fields) < 6 || !ok {
		return e, false
	}
	e.By, e.Region, e.Note = unescape(fields[3]), unescape(fields[4]), unescape(fields[5])
	for _, field := range fields[6:] {
		name, would := strings.CutPrefix(field, "would=")
		if would {
			e.Would = append(e.Would, name)
		}
		e.Outage = e.Outage || field == "outage"
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
	return e, err == nil
}

func chargesOf(line string) (charges []quota.Charge, ok bool) {
	for field := range strings.FieldsSeq(line) {
		name, value, found := strings.Cut(field, "=")
		units, err := strconv.ParseInt(value, 10, 64)
		if !found || err != nil {
			return nil, false
		}
		charges = append(charges, quota.Charge{Limit: name, Units: quota.Units(units)})
	}
	return charges, true
}

// sameRequest reports whether an entry is the grant of a request of an operation.
func sameRequest(e quota.Entry, ask quota.Ask) bool {
	g, isGrant := e.Grant()
	return isGrant && g.Operation == ask.Operation && g.Count == ask.Count && e.By == ask.Caller.By()
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
