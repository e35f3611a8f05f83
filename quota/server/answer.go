package server

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// WriteDecision answers an acquire, settle or release with an api.Decision. useReserve
// says which budget the caller was measured by. Most answers are this one, so it is
// written without reflection.
func WriteDecision(w http.ResponseWriter, d quota.Decision, useReserve bool) {
	body := newObject()
	body.flag("granted", d.Granted())
	if d.Granted() {
		writeGrant(body, d, useReserve)
		send(w, http.StatusOK, typeJSON, body.end())
		return
	}
	status := writeRefusal(body, d, useReserve)
	if d.Denied() {
		w.Header()["Retry-After"] = []string{strconv.FormatInt(api.Seconds(d.RetryAfter), 10)}
		addRateLimit(w.Header(), d, useReserve)
	}
	send(w, status, typeProblem, body.end())
}

func writeGrant(body *object, d quota.Decision, useReserve bool) {
	body.str("grant_id", d.GrantID)
	if d.Count != 0 {
		body.number("count", int64(d.Count))
	}
	if d.Units != 0 {
		body.number("units", int64(d.Units))
	}
	writeLimits(body, d)
	if d.Replayed {
		body.flag("replayed", true)
	}
	if d.Outage {
		body.str("mode", "outage")
	}
	if short := d.WouldDeny(useReserve); len(short) > 0 {
		body.list("would_deny", len(short), func(i int) {
			body.text = append(body.text, '{')
			body.str("limit", short[i].Limit)
			body.number("missing", int64(short[i].Missing))
			writeClosed(body, closedOf(short[i].Closed))
			body.text = append(body.text, '}')
		})
	}
	writeRemaining(body, d)
}

// writeRefusal writes the members of a problem, and those that say when to ask again.
// It returns the status.
func writeRefusal(body *object, d quota.Decision, useReserve bool) int {
	p := ProblemOf(d)
	writeLimits(body, d)
	body.str("reason", string(d.Reason))
	body.str("limit", d.Limit)
	if d.Units != 0 {
		body.number("requested", int64(d.Units))
	}
	if d.Denied() {
		body.number("retry_after_ms", d.RetryAfter.Milliseconds())
		body.time("retry_at", d.RetryAt)
	}
	if d.Reason == quota.LimitClosed {
		body.str("upstream_says", d.Closed().Says)
	}
	writeProblemMembers(body, p)
	if d.Denied() {
		body.strs("violated-policies", violated(d, useReserve))
	}
	writeRemaining(body, d)
	return p.Status
}

func writeProblemMembers(body *object, p *api.Problem) {
	body.str("type", p.Type)
	body.str("title", p.Title)
	body.number("status", int64(p.Status))
	body.str("detail", p.Detail)
	body.str("hint", p.Hint)
}

// writeLimits writes the state of the limits involved, and writeRemaining the smallest
// that remains of them, where they are known.
func writeLimits(body *object, d quota.Decision) {
	body.time("now", d.Now)
	if len(d.Limits) == 0 {
		return
	}
	body.list("limits", len(d.Limits), func(i int) { writeLimit(body, limitOf(d.Limits[i])) })
}

// writeLimit writes what encoding/json would write of a limit, which has no drift here.
func writeLimit(body *object, l api.Limit) {
	body.text = append(body.text, '{')
	body.str("name", l.Name)
	body.number("units", l.Units)
	body.number("reserve", l.Reserve)
	body.number("used", l.Used)
	body.number("remaining", l.Remaining)
	body.str("window", l.Window)
	body.timeAt("next_units_at", l.NextUnitsAt)
	if l.NextUnits != 0 {
		body.number("next_units", l.NextUnits)
	}
	body.timeAt("catching_up_until", l.CatchingUpUntil)
	writeClosed(body, l.Closed)
	body.strs("jobs", l.Jobs)
	body.strs("except_jobs", l.ExceptJobs)
	body.str("lift", l.Lift)
	if l.Lifted {
		body.flag("lifted", true)
	}
	if l.Observe {
		body.flag("observe", true)
	}
	body.text = append(body.text, '}')
}

func writeRemaining(body *object, d quota.Decision) {
	if len(d.Limits) > 0 {
		body.number("remaining", int64(d.Remaining()))
	}
}

// ProblemOf returns the problem that a refusal is.
func ProblemOf(d quota.Decision) *api.Problem {
	p := api.NewProblem(d.Reason, "%s", d.Detail)
	if d.Denied() {
		p.Detail = denialDetail(d)
	}
	if d.Hint != "" {
		p.Hint = d.Hint
	}
	return p
}

// violated names the limits that a denied request does not fit.
func violated(d quota.Decision, useReserve bool) []string {
	var names []string
	for _, l := range d.Limits {
		if l.Refuses() && l.Cost > spendable(l, useReserve) {
			names = append(names, l.Name)
		}
	}
	if names == nil {
		names = []string{d.Limit}
	}
	return names
}

func writeClosed(body *object, c *api.Closed) {
	if c == nil {
		return
	}
	body.name("closed")
	body.text = append(body.text, '{')
	body.time("since", c.Since)
	body.time("until", c.Until)
	body.str("says", c.Says)
	body.str("by", c.By)
	body.text = append(body.text, '}')
}

func denialDetail(d quota.Decision) string {
	if d.Reason == quota.LimitClosed {
		return "limit " + strconv.Quote(d.Limit) + " is closed until " + d.Closed().Until.UTC().Format(time.RFC3339) + ": " + d.Closed().Says
	}
	for _, l := range d.Limits {
		if l.Name == d.Limit && !l.CatchingUp.IsZero() {
			return "limit " + strconv.Quote(d.Limit) + " has a longer window than its log reaches back, and counts as spent until that is filled"
		}
	}
	if d.Detail != "" {
		return d.Detail
	}
	return "no room now for " + d.Units.Text() + " in limit " + strconv.Quote(d.Limit)
}

// spendable is what is left of a limit for a caller who may, or may not, use
// the reserve.
func spendable(l quota.LimitState, useReserve bool) quota.Units {
	if !l.CatchingUp.IsZero() || !l.Closed.IsZero() {
		return 0
	}
	return max(0, l.Budget(useReserve)-l.Used)
}

// addRateLimit writes the RateLimit fields of the limits that refuse what they have no
// room for.
func addRateLimit(h http.Header, d quota.Decision, useReserve bool) {
	var fields api.RateLimit
	for _, l := range d.Limits {
		if !l.Refuses() {
			continue
		}
		var reset time.Duration
		switch {
		case l.Name == d.Limit:
			reset = max(1, d.RetryAfter)
		case !d.Now.IsZero() && !l.NextAt.IsZero():
			reset = max(1, l.NextAt.Sub(d.Now))
		}
		fields.Add(l.Name, int64(l.Budget(useReserve)), int64(spendable(l, useReserve)), l.Window.Length, reset)
	}
	if policy, state, ok := fields.Fields(); ok {
		h["RateLimit-Policy"] = []string{policy}
		h["RateLimit"] = []string{state}
	}
}

// closedOf returns nil of a limit that is open.
func closedOf(c quota.Closed) *api.Closed {
	if c.IsZero() {
		return nil
	}
	return &api.Closed{Since: c.Since.UTC(), Until: c.Until.UTC(), Says: c.Says, By: c.By}
}

func limitsOf(states []quota.LimitState) []api.Limit {
	limits := make([]api.Limit, len(states))
	for i, s := range states {
		limits[i] = limitOf(s)
	}
	return limits
}

// limitOf is what every answer tells of a limit.
func limitOf(s quota.LimitState) api.Limit {
	return api.Limit{
		Name:            s.Name,
		Units:           int64(s.Units),
		Reserve:         int64(s.Reserve),
		Used:            int64(s.Used),
		Remaining:       int64(s.Remaining()),
		Window:          s.Window.String(),
		NextUnitsAt:     timeOf(s.NextAt),
		NextUnits:       int64(s.NextUnits),
		CatchingUpUntil: timeOf(s.CatchingUp),
		Closed:          closedOf(s.Closed),
		Jobs:            s.Jobs,
		ExceptJobs:      s.ExceptJobs,
		Lift:            liftOf(s.Limit),
		Lifted:          s.Lifted,
		Observe:         s.Observe,
	}
}

func liftOf(l quota.Limit) string {
	if l.Lift == 0 {
		return ""
	}
	return l.Lift.String()
}

func shortagesOf(list []quota.Shortage) []api.Shortage {
	all := make([]api.Shortage, len(list))
	for i, s := range list {
		all[i] = api.Shortage{Limit: s.Limit, Missing: int64(s.Missing), Closed: closedOf(s.Closed)}
	}
	return all
}

// timeOf returns nil for no time.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// writeJSON answers with v. What cannot be encoded is a fault of ours.
func writeJSON(w http.ResponseWriter, status int, v any) {
	write(w, status, typeJSON, v)
}

func writeProblem(w http.ResponseWriter, p *api.Problem) {
	write(w, p.Status, typeProblem, p)
}

func write(w http.ResponseWriter, status int, contentType []string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "cannot encode the answer", http.StatusInternalServerError)
		return
	}
	send(w, status, contentType, append(body, '\n'))
}

func send(w http.ResponseWriter, status int, contentType []string, body []byte) {
	w.Header()["Content-Type"] = contentType
	if status == http.StatusServiceUnavailable && w.Header()["Retry-After"] == nil {
		w.Header()["Retry-After"] = retrySoon
	}
	w.WriteHeader(status)
	// An error here means that the caller went away; nobody is left to tell.
	w.Write(body)
}
