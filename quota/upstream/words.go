package upstream

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	number = `(?:[\d.,]+ ?|(?:one|ten|sixty|hundred|thousand) ){0,2}`
	per    = `\b(?:per|every|each|within|last|this|an?|for the(?: current)?|(?:requests|calls|queries) in) (?:the )?(?:last )?` + number
	slash  = `(?:\w/ ?| / )` + number // not that of a path
)

// A range of data, or a timeout, is no window of a limit: "exceeds the limit: only the last 90 days are
// kept", "deadline exceeded: no answer within 30 seconds".
var (
	ofCalls = regexp.MustCompile(`\b(requests|calls|queries)\b`)
	ofData  = regexp.MustCompile(`\b(within|last|this) (the )?(last )?` + number + `(sec|second|min|minute|hour|day|week|month|year)s?\b`)
)

// Upstreams say in English what their reasons leave open. Each pattern is of spelled text.
var (
	ofQuota = regexp.MustCompile(`\b(limit(s|ed|ing|ation)?|quotas?|exceed\w*|exhaust\w*|throttl\w*|too (many|quickly|fast|frequently|often)|reached|allowance|slow ?down|[qr]ps|abuse detection|rate)\b`)

	ofSeconds = regexp.MustCompile(per + `(ms|s|m|milliseconds?|seconds?|secs?|minutes?|mins?)\b|` + slash + `(s|sec|seconds?|m|min|minutes?)\b|\b(secondly|minutely|[qr]ps|[qrt]pm)\b|\b\d+ ?(second|sec|minute|min)s? (window|period|interval|limit|quota)`)
	ofHours   = regexp.MustCompile(per + `(hour|hr)s?\b|` + slash + `(h|hrs?|hours?)\b|\bhourly\b|\bhour (limit|quota)`)
	ofDays    = regexp.MustCompile(per + `(day|week|month|year)s?\b|` + slash + `(d|days?|wk?|weeks?|mo|months?)\b|\b(daily|weekly|monthly|yearly|rpd|midnight|tomorrow)\b|\b(12|24|48) ?(h|hrs?|hours?)\b|\b(day|week|month) (\w+ )?(limit|quota|cap)\b|\bquota will be replenished\b`)

	ofRate  = regexp.MustCompile(`\brate ?limit|\b(request|call|query|api|usage|overall) rate\b|\brate (is |was )?(exceeded|higher|too)\b|\btoo many (api )?(requests|calls|queries|connections)\b|\bthrottl|\btoo (quickly|fast|frequently|often)\b|\babuse detection\b|\bconcurren|\bsimultaneous`)
	anyRate = regexp.MustCompile(`\brate\b`)

	ofExhaustion = regexp.MustCompile(`\bquotas?\b.*\b(exceeded|exhausted|reached|used up|depleted)\b|\b(exceed(s|ed|ing)?|exhausted|reached|out of|insufficient)\b.*\bquotas?\b`)
)

func speaksOfExhaustion(text string) bool { return ofExhaustion.MatchString(spelled(text)) }

var (
	addresses = regexp.MustCompile(`https?://\S+`)
	humps     = regexp.MustCompile(`([a-z])([A-Z0-9])|([0-9])([A-Za-z])`)
)

// spelled returns the words of a text, or of a name such as rateLimitExceeded or DAILY_LIMIT.
func spelled(text string) string {
	text = humps.ReplaceAllString(addresses.ReplaceAllString(text, ""), "$1$3 $2$4")
	return strings.ToLower(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '_' || r == '-' || r == ' ' || r == '\n' }), " "))
}

// words returns what the first text says that names a span of time for a quota, or the first that
// speaks of a rate, else "". Loose is whether
// the answer is about a quota for sure: then any word of a rate is one. A text that names both
// seconds and days does not say which of them is exhausted: the short one is the safe guess.
func words(texts []string, loose bool) (class Class) {
	for _, text := range texts {
		text = spelled(text)
		about := loose || ofQuota.MatchString(text)
		if !loose && !ofCalls.MatchString(text) {
			text = ofData.ReplaceAllString(text, "")
		}
		if span := spanOf(text); about && span != "" {
			return span
		}
		if about && ofRate.MatchString(text) || loose && anyRate.MatchString(text) {
			class = Minute
		}
	}
	return class
}

// spanOf returns the class of the span of time that a spelled text names.
func spanOf(text string) Class {
	switch {
	case ofSeconds.MatchString(text):
		return Minute
	case ofDays.MatchString(text):
		return Day
	case ofHours.MatchString(text):
		return hour
	}
	return ""
}

// inWords is a time after which a message asks to try again: "in 54 seconds", "after 7m12s", "after
// 2026-03-14T09:00:00Z".
var inWords = regexp.MustCompile(`(?i)\b(?:try again|retry|wait)(?: again)?(?: in| after| for| at)? (\d[\dTZhms:.-]*)(?: ?(ms|mo|s|m|h|d|w)[a-z]*\b)?`)

// retryInWords returns the time that the messages name for the next try; the zero time where they
// name none.
func retryInWords(messages []string, now time.Time) time.Time {
	for _, message := range messages {
		found := inWords.FindStringSubmatch(message)
		if found == nil {
			continue
		}
		text, unit := strings.TrimRight(found[1], ".-:"), strings.ToLower(found[2])
		if slices.Contains([]string{"d", "w", "mo"}, unit) { // a rate is waited for at most an hour
			text, unit = "24", "h"
		}
		for _, at := range []time.Time{soon(RFC3339, text, now), soon(Duration, text+unit, now), soon(Seconds, text, now)} {
			if !at.IsZero() {
				return at
			}
		}
	}
	return time.Time{}
}

// soon reads a time at which to try again. Unlike a reset, it is advice: one that has passed, that
// no quota waits for, or that cannot be read is the zero time, as if it were absent.
func soon(e Encoding, text string, now time.Time) time.Time {
	at, err := e.read(text, now)
	if err != nil || !at.After(now) || at.After(now.Add(maxReset)) {
		return time.Time{}
	}
	return at.UTC()
}
