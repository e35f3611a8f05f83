package upstream

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"quotad/quota"
)

// findings are what a body says, in whichever of the upstreams' forms.
type findings struct {
	messages []string
	reasons  []string // the most specific first
	units    []string // "1/d/{project}"
	limits   []string // ids: "defaultPerDayPerProject"
	metrics  []string // "youtube.googleapis.com/search_list"
	left     []Left

	refuses     bool   // though the status may be 200
	service     string // the reason of an ErrorInfo of googleapis.com: about the key, the project or its quota
	zeroQuota   bool   // the upstream says that the quota is 0
	windowStart string // Epoch: when the upstream's window began
	resetAt     string // RFC3339
	resetIn     string // Duration
	retryIn     string // Duration: when to retry, which says nothing of a day
}

// readBody reads what a body says. A page of HTML, of a proxy perhaps, says nothing.
func readBody(a Answer) *findings {
	s := new(findings)
	var value any
	switch trimmed := strings.TrimSpace(string(a.Body)); {
	case json.Unmarshal(a.Body, &value) == nil:
		object, _ := value.(map[string]any)
		s.refuses = isOneOf(ofMaps, object["status"]) && text(object["error_message"]) != ""
		s.graphQL(object["errors"])
		s.read(value)
	case a.Status < 400:
	case strings.HasPrefix(trimmed, "<"):
		for _, field := range xmlField.FindAllStringSubmatch(trimmed, 20) {
			s.read(map[string]any{strings.ToLower(field[1]): html.UnescapeString(field[2])})
		}
	case !strings.HasPrefix(trimmed, "{") && !strings.HasPrefix(trimmed, "["): // or it was cut
		s.message(trimmed)
	}
	for _, message := range s.messages {
		s.zeroQuota = s.zeroQuota || zeroLimit.MatchString(message)
	}
	return s
}

var (
	xmlField  = regexp.MustCompile(`<([Cc]ode|[Mm]essage)>([^<]+)</`)                       // Amazon's
	zeroLimit = regexp.MustCompile(`(?i)^quota exceeded\b.*\blimit: 0(?:[^\d.]|\.\D|\.?$)`) // Gemini's, of a model that is not for free
)

// read reads an object, or each object of a list: errors inside it first, then its own fields,
// the most specific first. Upstreams nest the same few fields in different ways: Google's and
// OpenAI's error, Google's, X's and Shopify's errors, Salesforce's list, RFC 9457's object.
func (s *findings) read(value any) {
	switch value := value.(type) {
	case []any:
		for _, each := range value {
			s.read(each)
		}
	case string: // {"errors": "Exceeded 2 calls per second"}
		if strings.Contains(value, " ") {
			s.message(value)
		}
	case map[string]any:
		s.object(value)
	}
}

func (s *findings) object(object map[string]any) {
	each := func(read func(any), keys ...string) {
		for _, key := range keys {
			if inner, has := object[key]; has {
				read(inner)
			}
		}
	}
	each(s.read, "error", "errors")
	if kind := text(object["type"]); kind == "OAuthException" { // Facebook's: its codes are numbers
		add(&s.reasons, kind+"/"+text(object["code"]))
	}
	each(s.reason, "error", "reason", "errorCode", "errorType", "error_code", "code", "__type", "title", "type", "category")
	each(s.message, "error_description", "detail", "message", "description", "errorMessages", "error_message", "error_msg", "info")
	each(s.debug, "debugInfo")
	s.quota(object)
	each(s.read, "details", "metadata", "violations", "parameters")
	each(s.reason, "status")
	each(s.read, "extensions")
	each(s.propertyQuota, "propertyQuota")
}

// graphQL reads the errors of GraphQL. Only there a reason refuses by itself: elsewhere in an answer
// with a status of 200 it is a word of the API's own data.
func (s *findings) graphQL(errors any) {
	list, _ := errors.([]any)
	for _, one := range list {
		object, _ := one.(map[string]any)
		extensions, _ := object["extensions"].(map[string]any)
		s.refuses = s.refuses || isOneOf(ofGraphQL, object["type"]) || isOneOf(ofGraphQL, extensions["code"])
	}
}

func isOneOf(list string, reason any) bool {
	word := text(reason)
	return word != "" && strings.Contains(list, " "+word+" ")
}

// reason adds a reason. RFC 9457's type is an address, and Amazon's a shape: the last segment is the
// reason.
func (s *findings) reason(value any) {
	reason := text(value)
	add(&s.reasons, reason[strings.LastIndexAny(reason, "/#")+1:])
}

// named returns the reason that people know the refusal by; empty where there is none but numbers.
func (s *findings) named() string {
	for _, reason := range append([]string{s.service}, s.reasons...) {
		if strings.Trim(reason, "0123456789") != "" {
			return Line(reason)
		}
	}
	return ""
}

func (s *findings) message(value any) {
	if list, ok := value.([]any); ok {
		for _, each := range list {
			s.message(each)
		}
	}
	add(&s.messages, text(value))
}

var debugLimit = regexp.MustCompile(`\blimit=(\w+)`)

// debug finds the limit that the debug text of YouTube's old pool names.
func (s *findings) debug(value any) {
	if found := debugLimit.FindStringSubmatch(text(value)); found != nil {
		add(&s.limits, Line(found[1]))
	}
}

// quota reads the details of google.rpc: the metadata of an ErrorInfo, a violation of a
// QuotaFailure, a RetryInfo.
func (s *findings) quota(object map[string]any) {
	field := func(key string) string { return text(object[key]) }
	add(&s.units, Line(field("quota_unit")))
	if field("domain") == "googleapis.com" {
		s.service = cmp.Or(field("reason"), s.service)
	}
	add(&s.limits, Line(field("policyName"))) // HubSpot's: "TEN_SECONDLY_ROLLING"
	for _, keys := range [][3]string{{"quota_limit", "quota_metric", "quota_limit_value"}, {"quotaId", "quotaMetric", "quotaValue"}} {
		name, size := field(keys[0]), amount(field(keys[2]))
		add(&s.limits, Line(name))
		add(&s.metrics, Line(field(keys[1])))
		if size.Known {
			s.zeroQuota = s.zeroQuota || size.Units == 0
			s.left = append(s.left, Left{Name: name, Limit: size})
		}
	}
	s.windowStart = cmp.Or(field("window_start_time"), s.windowStart)
	s.resetAt = cmp.Or(field("quotaResetTimeStamp"), s.resetAt)
	s.resetIn = cmp.Or(field("quotaResetDelay"), s.resetIn)
	s.retryIn = cmp.Or(field("retryDelay"), s.retryIn)
	for _, key := range []string{"retry_after", "retryAfter"} { // seconds: Discord's, Telegram's
		switch seconds := object[key].(type) {
		case float64, string:
			s.retryIn = cmp.Or(s.retryIn, fmt.Sprint(seconds, "s"))
		}
	}
}

// propertyQuota reads what Google Analytics says is left: of tokensPerDay, tokensPerHour and
// others.
func (s *findings) propertyQuota(value any) {
	property, _ := value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(property)) {
		one, _ := property[name].(map[string]any)
		if left := amount(text(one["remaining"])); left.Known {
			s.left = append(s.left, Left{Name: name, Remaining: left})
		}
	}
}

// add adds a text to a list that does not have it yet.
func add(list *[]string, text string) {
	if text != "" && !slices.Contains(*list, text) {
		*list = append(*list, text)
	}
}

// text returns a string as it is and a whole number in digits; anything else is "".
func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case float64:
		if v == float64(int64(v)) {
			return fmt.Sprint(int64(v))
		}
	}
	return ""
}

var quotedLimit = regexp.MustCompile(`(?i)\blimit '([^']{1,200})'`)

// quoted returns the limits that the messages name: "limit 'Search Queries per day'".
func (s *findings) quoted() (names []string) {
	for _, message := range s.messages {
		if found := quotedLimit.FindStringSubmatch(message); found != nil {
			add(&names, Line(found[1]))
		}
	}
	return names
}

// names returns what the upstream calls the limit, the most specific first.
func (s *findings) names() []string {
	names := slices.Clone(s.limits)
	isLong := func(name string) bool { return cmp.Or(classOfName(name), Minute) != Minute }
	if slices.ContainsFunc(names, isLong) { // of several that are exceeded, the day's
		names = slices.DeleteFunc(names, func(name string) bool { return !isLong(name) })
	}
	for _, name := range slices.Concat(s.quoted(), s.metrics) {
		add(&names, name)
	}
	return names
}

// class decides by the unit of the quota, then by the limit's id, then by the limit that a
// message names; "" where none says.
func (s *findings) class() Class {
	return cmp.Or(longest(s.units), longest(s.limits), longest(s.quoted()))
}

// longest returns the class of the names that lasts longest.
func longest(names []string) (class Class) {
	for _, name := range names {
		switch one := classOfName(name); {
		case one == Day:
			return Day
		case one == hour, one == Minute && class == "":
			class = one
		}
	}
	return class
}

var suffixed = regexp.MustCompile(`-\d+(s|m|h|d)$`) // "USER-100s", "CLIENT_PROJECT-1d"

// classOfName reads "Queries per day", "queries_per_day" and "QueriesPerDayPerProject" alike, and the
// unit "1/d/{project}".
func classOfName(name string) Class {
	if suffix := suffixed.FindStringSubmatch(name); suffix != nil {
		return map[string]Class{"s": Minute, "m": Minute, "h": hour, "d": Day}[suffix[1]]
	}
	return spanOf(spelled(name))
}

// isDaily reports whether every unit is of a day, rather than of an hour or a month.
func (s *findings) isDaily() bool {
	return len(s.units) > 0 && !slices.ContainsFunc(s.units, func(unit string) bool { return !strings.Contains(unit, "/d") })
}

// hasDelay reports whether the body says how long to wait.
func (s *findings) hasDelay() bool { return s.resetAt != "" || s.resetIn != "" || s.retryIn != "" }

// reset returns when the body says that the limit resets: at a time, after a duration, or at
// the end of the day that began at a time. The zero time where it does not say.
func (s *findings) reset(day quota.Window, now time.Time) (time.Time, error) {
	switch {
	case s.resetAt != "":
		return RFC3339.read(s.resetAt, now)
	case s.windowStart != "" && day.Restarts() && s.isDaily():
		start, err := Epoch.read(s.windowStart, now)
		if err != nil {
			return time.Time{}, err
		}
		_, end := day.Bounds(start)
		return end, nil
	default:
		return Duration.read(s.resetIn, now)
	}
}

// retryAt returns when to try again, where no reset is known. What the body says counts for Minute
// alone: Gemini says seconds of a day. After is what the header says.
func (s *findings) retryAt(class Class, after, now time.Time) time.Time {
	if class != Minute {
		return after
	}
	for _, at := range []time.Time{soon(Duration, s.retryIn, now), after, retryInWords(s.messages, now)} {
		if !at.IsZero() {
			return at
		}
	}
	return time.Time{}
}
