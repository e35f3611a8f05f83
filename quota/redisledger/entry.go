package redisledger

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"quotad/quota"
)

// An entry stands in the log, and in the journal, as a line of text: account.lua says how.

// escape keeps apart the words of an entry: an empty one is "-".
var escape = strings.NewReplacer("%", "%25", " ", "%20", ",", "%2C", ";", "%3B", "\n", "%0A", "\r", "%0D")

var unescape = strings.NewReplacer("%25", "%", "%20", " ", "%2C", ",", "%3B", ";", "%0A", "\n", "%0D", "\r", "%2D", "-")

func word(text string) string {
	switch text {
	case "":
		return "-"
	case "-":
		return "%2D"
	}
	return escape.Replace(text)
}

func unword(text string) string {
	if text == "-" {
		return ""
	}
	return unescape.Replace(text)
}

// requestDigest stands for a request key in Redis; "-" for none.
func requestDigest(key string) string {
	if key == "" {
		return "-"
	}
	hash := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(hash[:9])
}

// grantText is the entry of a grant of an ask.
func grantText(ask quota.Ask, digest string) string {
	b := make([]byte, 0, 96)
	b = append(b, 'g')
	for _, charge := range ask.Charges {
		b = append(b, ',')
		b = append(b, charge.Limit...)
		b = append(b, '=')
		b = strconv.AppendInt(b, int64(charge.Units), 10)
	}
	b = append(append(b, ' '), word(ask.Operation)...)
	b = strconv.AppendInt(append(b, ' '), int64(ask.Count), 10)
	b = append(append(b, ' '), word(ask.Caller.By())...)
	b = append(append(b, ' '), word(ask.Caller.Region)...)
	return string(append(append(b, ' '), digest...))
}

// settleText is the entry of a settlement up to the grant's charges.
func settleText(s quota.Settlement) string {
	return fmt.Sprintf("s %s %d %s %s", s.Grant, s.Units, word(s.Caller.By()), word(s.Caller.Region))
}

// closingText is the entry of a limit that is closed, or opened.
func closingText(k quota.Closing) string {
	if k.Until.IsZero() {
		return fmt.Sprintf("o %s %s %s %s", k.Limit, word(k.Caller.By()), word(k.Caller.Region), word(k.Says))
	}
	return fmt.Sprintf("c %s %d %s %s %s", k.Limit, k.Until.UnixMilli(), word(k.Caller.By()), word(k.Caller.Region), word(k.Says))
}

func resetText(by quota.Caller, note string) string {
	return fmt.Sprintf("r %s %s %s", word(by.By()), word(by.Region), word(note))
}

// parseEntry reads an entry's text.
func parseEntry(id quota.ID, text string) (quota.Entry, error) {
	e := quota.Entry{ID: id, At: id.Time()}
	head, _, _ := strings.Cut(text, ";")
	words := strings.Split(head, " ")
	kind, list := words[0][:min(1, len(words[0]))], words[0][min(1, len(words[0])):]
	need := map[string]int{"g": 6, "u": 7, "d": 7, "s": 7, "r": 4, "c": 6, "o": 5}[kind]
	if need == 0 || len(words) != need {
		return e, fmt.Errorf("cannot understand redis: %s is no entry of this version: %.80q", id, text)
	}
	var err error
	switch words = words[1:]; kind {
	case "g":
		e.Kind, e.Operation, e.By, e.Region = quota.KindGrant, unword(words[0]), unword(words[2]), unword(words[3])
		e.Count, err = parseUnits(words[1])
		e.Charges = parseCharges(list)
	case "u", "d":
		var booked quota.Units
		e.Kind, e.By, e.Region, e.Note = quota.KindAdjustment, unword(words[3]), unword(words[4]), unword(words[5])
		e.Asked, err = strconv.ParseInt(words[1], 10, 64)
		if err == nil {
			booked, err = parseUnits(words[2])
		}
		e.Charges = []quota.Charge{{Limit: words[0], Units: booked}}
	case "s":
		e.Kind, e.By, e.Region = quota.KindSettlement, unword(words[2]), unword(words[3])
		e.Before, e.After = parseCharges(words[4]), parseCharges(words[5])
		if e.Grant, err = quota.ParseID(words[0]); err == nil {
			e.SettledTo, err = parseUnits(words[1])
		}
	case "c":
		var ms int64
		e.Kind, e.Limit, e.By, e.Region, e.Note = quota.KindClosing, words[0], unword(words[2]), unword(words[3]), unword(words[4])
		ms, err = strconv.ParseInt(words[1], 10, 64)
		e.Until = instant(ms)
	case "o":
		e.Kind, e.Limit, e.By, e.Region, e.Note = quota.KindOpening, words[0], unword(words[1]), unword(words[2]), unword(words[3])
	case "r":
		e.Kind, e.By, e.Region, e.Note = quota.KindReset, unword(words[0]), unword(words[1]), unword(words[2])
	}
	return e, err
}

// correct takes in what the settled hash says of an entry.
func correct(e *quota.Entry, state string) {
	words := strings.Split(state, " ")
	if len(words) != 3 {
		return
	}
	if to, err := parseUnits(words[1]); err == nil {
		e.Settled, e.SettledTo = true, to
	}
	e.GivenBack = parseCharges(words[2])
}

// parseCharges reads ",daily=100,search=1".
func parseCharges(list string) []quota.Charge {
	var charges []quota.Charge
	for pair := range strings.SplitSeq(strings.TrimPrefix(list, ","), ",") {
		name, value, ok := strings.Cut(pair, "=")
		if n, err := parseUnits(value); ok && err == nil {
			charges = append(charges, quota.Charge{Limit: name, Units: n})
		}
	}
	return charges
}

func formatCharges(charges map[string]quota.Units, names []string) string {
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, ",%s=%d", name, charges[name])
	}
	return b.String()
}

func parseUnits(text string) (quota.Units, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	return quota.Units(n), err
}
