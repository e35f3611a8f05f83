package upstream

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"quotad/quota"
)

// now is a morning in California; its day ends at 07:00 UTC.
var now = time.Date(2026, 9, 25, 15, 20, 0, 0, time.UTC)

func pacific(t testing.TB) quota.Window {
	t.Helper()
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	return quota.Calendar(quota.Day, zone)
}

// searches2026 is the whole answer of YouTube to the 101st search of a day.
const searches2026 = `{"error":{"code":429,
 "message":"Quota exceeded for quota metric 'Search Queries' and limit 'Search Queries per day' of service 'youtube.googleapis.com' for consumer 'project_number:112233'.",
 "errors":[{"domain":"global","reason":"rateLimitExceeded"}],
 "status":"RESOURCE_EXHAUSTED",
 "details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"RATE_LIMIT_EXCEEDED","domain":"googleapis.com",
  "metadata":{"quota_location":"global","window_start_time":"1790319600","quota_limit":"defaultSearchListPerDayPerProject","consumer":"projects/112233",
   "quota_unit":"1/d/{project}","service":"youtube.googleapis.com","quota_metric":"youtube.googleapis.com/search_list","quota_limit_value":"100"}}]}}`

// perMinute2022 has no quota_unit.
const perMinute2022 = `{"error":{"code":429,
 "message":"Quota exceeded for quota metric 'Read requests' and limit 'Read requests per minute per user' of service 'sheets.googleapis.com' for consumer 'project_number:1'.",
 "status":"RESOURCE_EXHAUSTED",
 "details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"RATE_LIMIT_EXCEEDED","domain":"googleapis.com",
  "metadata":{"service":"sheets.googleapis.com","quota_limit":"ReadRequestsPerMinutePerUser","quota_metric":"sheets.googleapis.com/read_requests","consumer":"projects/1"}}]}}`

const gemini = `{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED",
 "details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[
   {"quotaMetric":"generativelanguage.googleapis.com/generate_content_free_tier_requests","quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier","quotaValue":"10"},
   {"quotaMetric":"generativelanguage.googleapis.com/generate_content_free_tier_requests","quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier","quotaValue":"250"}]},
  {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"52.3s"}]}}`

var github = Format{Headers: Headers{
	Limit: "x-ratelimit-limit", Used: "x-ratelimit-used", Remaining: "x-ratelimit-remaining",
	Resource: "x-ratelimit-resource", Reset: "x-ratelimit-reset", ResetIs: Epoch,
}}

func header(lines ...string) http.Header {
	h := make(http.Header)
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		h.Add(name, value)
	}
	return h
}

func TestClassify(t *testing.T) {
	youtube := Format{Day: pacific(t), Reasons: Reasons{"uploadLimitExceeded": OK}}
	midnight := time.Date(2026, 9, 26, 7, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		name   string
		answer Answer
		format Format
		want   Verdict
	}{
		{"YouTube 2026: the searches of a day", Answer{429, nil, []byte(searches2026)}, youtube, Verdict{
			Class: Day, Reset: midnight,
			Names: []string{"defaultSearchListPerDayPerProject", "Search Queries per day", "youtube.googleapis.com/search_list"},
			Says:  "Quota exceeded for quota metric 'Search Queries' and limit 'Search Queries per day' of service 'youtube.googleapis.com' for consumer 'project_number:112233'.",
			Left:  []Left{{Name: "defaultSearchListPerDayPerProject", Limit: Known(100)}},
		}},
		{"YouTube 2026: uploads, without details", Answer{429, nil, []byte(`{"error":{"code":429,"message":"Quota exceeded for quota metric 'Video Uploads' and limit 'Video Uploads per day' of service 'youtube.googleapis.com'.","errors":[{"message":"Quota exceeded for quota metric 'Video Uploads' and limit 'Video Uploads per day' of service 'youtube.googleapis.com'.","domain":"global","reason":"rateLimitExceeded"}]}}`)}, youtube, Verdict{
			Class: Day, Names: []string{"Video Uploads per day"},
			Says: "Quota exceeded for quota metric 'Video Uploads' and limit 'Video Uploads per day' of service 'youtube.googleapis.com'.",
		}},
		{"YouTube: the old pool", Answer{403, nil, []byte(`{"error":{"errors":[{"domain":"youtube.quota","reason":"quotaExceeded","debugInfo":"Code: 8; limit=defaultPerDayPerProject&qs_error_code=INSUFFICIENT_TOKENS","message":"The request cannot be completed because you have exceeded your \u003ca href=\"/youtube/v3/getting-started#quota\"\u003equota\u003c/a\u003e."}],"code":403,"message":"The request cannot be completed"}}`)}, youtube, Verdict{
			Class: Day, Names: []string{"defaultPerDayPerProject"},
			Says: `The request cannot be completed because you have exceeded your quota.`,
		}},
		{"YouTube: legacy", Answer{403, nil, []byte(`{"error":{"errors":[{"domain":"usageLimits","reason":"dailyLimitExceeded"}],"code":403,"message":"Daily Limit Exceeded. The quota will be reset at midnight Pacific Time (PT)."}}`)}, youtube, Verdict{
			Class: Day, Says: "Daily Limit Exceeded. The quota will be reset at midnight Pacific Time (PT).",
		}},
		{"YouTube: no key", Answer{403, nil, []byte(`{"error":{"errors":[{"domain":"usageLimits","reason":"dailyLimitExceededUnreg"}],"code":403,"message":"Daily Limit for Unauthenticated Use Exceeded."}}`)}, youtube, Verdict{
			Class: Key, Says: "Daily Limit for Unauthenticated Use Exceeded.",
		}},
		{"Google: a key that is not valid, in an ErrorInfo without metadata", Answer{400, nil, []byte(`{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","errors":[{"message":"API key not valid. Please pass a valid API key.","domain":"global","reason":"badRequest"}],"status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}`)}, youtube, Verdict{
			Class: Key, Says: "API key not valid. Please pass a valid API key.",
		}},
		{"YouTube: the channel's own limit", Answer{400, nil, []byte(`{"error":{"errors":[{"domain":"youtube.video","reason":"uploadLimitExceeded"}],"code":400,"message":"The user has exceeded the number of videos they may upload."}}`)}, youtube, Verdict{
			Class: OK, Says: "The user has exceeded the number of videos they may upload.",
		}},
		{"YouTube: not allowed, which is not about quota", Answer{403, nil, []byte(`{"error":{"errors":[{"domain":"youtube.commentThread","reason":"commentsDisabled"}],"code":403,"message":"The video has disabled comments."}}`)}, youtube, Verdict{
			Class: OK, Says: "The video has disabled comments.",
		}},
		{"YouTube: a burst, without details", Answer{429, nil, nil}, youtube, Verdict{Class: Unknown, Says: "429 Too Many Requests"}},
		{"a quota of 0", Answer{429, nil, []byte(strings.ReplaceAll(searches2026, `"quota_limit_value":"100"`, `"quota_limit_value":"0"`))}, youtube, Verdict{
			Class: Key,
			Names: []string{"defaultSearchListPerDayPerProject", "Search Queries per day", "youtube.googleapis.com/search_list"},
			Says:  "Quota exceeded for quota metric 'Search Queries' and limit 'Search Queries per day' of service 'youtube.googleapis.com' for consumer 'project_number:112233'.",
			Left:  []Left{{Name: "defaultSearchListPerDayPerProject", Limit: Known(0)}},
		}},
		{"Google 2022: a minute", Answer{429, nil, []byte(perMinute2022)}, Format{}, Verdict{
			Class: Minute, Names: []string{"ReadRequestsPerMinutePerUser", "Read requests per minute per user", "sheets.googleapis.com/read_requests"},
			Says: "Quota exceeded for quota metric 'Read requests' and limit 'Read requests per minute per user' of service 'sheets.googleapis.com' for consumer 'project_number:1'.",
		}},
		{"a minute whose wait is as long as a day", Answer{429, header("Retry-After: 86400"), []byte(perMinute2022)}, Format{}, Verdict{
			Class: Minute, Names: []string{"ReadRequestsPerMinutePerUser", "Read requests per minute per user", "sheets.googleapis.com/read_requests"},
			Says:  "Quota exceeded for quota metric 'Read requests' and limit 'Read requests per minute per user' of service 'sheets.googleapis.com' for consumer 'project_number:1'.",
			Reset: now.Add(24 * time.Hour),
		}},
		{"Gemini: the day and the minute are gone", Answer{429, nil, []byte(gemini)}, Format{}, Verdict{
			Class: Day, Names: []string{"GenerateRequestsPerDayPerProjectPerModel-FreeTier", "generativelanguage.googleapis.com/generate_content_free_tier_requests"},
			Says: "You exceeded your current quota, please check your plan and billing details.",
			Left: []Left{{Name: "GenerateRequestsPerMinutePerProjectPerModel-FreeTier", Limit: Known(10)}, {Name: "GenerateRequestsPerDayPerProjectPerModel-FreeTier", Limit: Known(250)}},
		}},
		{"Gemini CLI: a time stamp", Answer{429, nil, []byte(`{"error":{"code":429,"message":"You have exhausted your capacity on this model.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"QUOTA_EXHAUSTED","metadata":{"quota_limit":"RequestsPerDay","quotaResetDelay":"1h16m0.667923083s","quotaResetTimeStamp":"2026-09-25T16:36:00Z"}},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"4560.667923083s"}]}}`)}, Format{}, Verdict{
			Class: Day, Names: []string{"RequestsPerDay"}, Says: "You have exhausted your capacity on this model.",
			Reset: time.Date(2026, 9, 25, 16, 36, 0, 0, time.UTC),
		}},
		{"GitHub: the hour is gone", Answer{403, header("X-Ratelimit-Limit: 5000", "X-Ratelimit-Remaining: 0", "X-Ratelimit-Used: 5000", "X-Ratelimit-Reset: 1790350200", "X-Ratelimit-Resource: core"),
			[]byte(`{"message":"API rate limit exceeded for user ID 1.","documentation_url":"https://docs.github.com/rest"}`)}, github, Verdict{
			Class: Day, Names: []string{"core"}, Says: "API rate limit exceeded for user ID 1.", Reset: time.Unix(1790350200, 0).UTC(),
			Left: []Left{{"core", Known(5000), Known(5000), Known(0)}},
		}},
		{"GitHub: a secondary limit", Answer{403, header("Retry-After: 60", "X-Ratelimit-Remaining: 4711"), []byte(`{"message":"You have exceeded a secondary rate limit."}`)}, github, Verdict{
			Class: Minute, Says: "You have exceeded a secondary rate limit.", Reset: now.Add(time.Minute),
			Left: []Left{{Remaining: Known(4711)}},
		}},
		{"GitHub: an ordinary answer", Answer{200, header("X-Ratelimit-Limit: 5000", "X-Ratelimit-Remaining: 4999", "X-Ratelimit-Used: 1", "X-Ratelimit-Reset: 1790350200", "X-Ratelimit-Resource: core"), []byte(`[]`)}, github, Verdict{
			Class: OK, Left: []Left{{"core", Known(5000), Known(1), Known(4999)}},
		}},
		{"GitHub: a bad token", Answer{401, nil, []byte(`{"message":"Bad credentials"}`)}, github, Verdict{Class: Key, Says: "Bad credentials"}},
		{"GitHub: no such thing for you", Answer{403, header("X-Ratelimit-Remaining: 12"), []byte(`{"message":"Resource not accessible by integration"}`)}, github, Verdict{
			Class: OK, Says: "Resource not accessible by integration", Left: []Left{{Remaining: Known(12)}},
		}},
		{"Reddit: remaining is a float, reset in seconds", Answer{429, header("X-Ratelimit-Remaining: 0.0", "X-Ratelimit-Used: 996", "X-Ratelimit-Reset: 402"), []byte(`{"message": "Too Many Requests", "error": 429}`)},
			Format{Headers: Headers{Used: "X-Ratelimit-Used", Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Reset", ResetIs: Seconds}}, Verdict{
				Class: Day, Says: "Too Many Requests", Reset: now.Add(402 * time.Second), Left: []Left{{Used: Known(996), Remaining: Known(0)}},
			}},
		{"a gateway of gRPC: the details are at the top", Answer{429, nil, []byte(`{"code":8,"message":"Quota exceeded.","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"RATE_LIMIT_EXCEEDED","metadata":{"quota_unit":"1/d/{project}","quota_limit":"SearchesPerDay"}}]}`)}, Format{}, Verdict{
			Class: Day, Names: []string{"SearchesPerDay"}, Says: "Quota exceeded.",
		}},
		{"nobody's 429 with a date", Answer{429, header("Retry-After: Fri, 25 Sep 2026 15:25:00 GMT"), []byte(`<html>slow down</html>`)}, Format{}, Verdict{
			Class: Minute, Says: "429 Too Many Requests", Reset: now.Add(5 * time.Minute),
		}},
		{"a server in trouble", Answer{503, header("Retry-After: 120"), nil}, Format{}, Verdict{Class: OK}},
		{"a message that quotes the key", Answer{429, nil, []byte(`{"error":{"message":"quota gone for https://example.com/x?a=1&key=AIzaSecret&b=2\u001b[31m\n\nred"}}`)}, Format{}, Verdict{
			Class: Unknown, Says: "quota gone for https://example.com/x?a=1&key=…&b=2 [31m red",
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := Classify(row.answer, row.format, now)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, row.want) {
				t.Errorf("\n got %+v\nwant %+v", got, row.want)
			}
		})
	}
}

// The day of the upstream ends where its zone says, on days of 23 and 25 hours too.
func TestResetOfADayThatIsNotOf24Hours(t *testing.T) {
	for _, row := range []struct {
		name       string
		start, end time.Time
	}{
		{"23 hours", time.Date(2026, 3, 8, 8, 0, 0, 0, time.UTC), time.Date(2026, 3, 9, 7, 0, 0, 0, time.UTC)},
		{"25 hours", time.Date(2026, 11, 1, 7, 0, 0, 0, time.UTC), time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)},
	} {
		body := strings.ReplaceAll(searches2026, "1790319600", stampEpoch(row.start))
		v, err := Classify(Answer{429, nil, []byte(body)}, Format{Day: pacific(t)}, row.end.Add(-time.Minute))
		if err != nil || !v.Reset.Equal(row.end) {
			t.Errorf("%s: got %v, %v, want %v", row.name, v.Reset, err, row.end)
		}
	}
}

// A reset that has just passed is one: the upstream's clock may be behind ours.
func TestAClockThatIsBehind(t *testing.T) {
	for passed, is := range map[time.Duration]bool{30 * time.Second: true, time.Minute: true, 61 * time.Second: false} {
		v, err := Classify(resets(-passed), github, now)
		if err != nil || v.Class != Day || v.Reset.IsZero() == is {
			t.Errorf("%v ago: got %+v, %v, want that it is taken: %v", passed, v, err, is)
		}
	}
}

func stampEpoch(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

func TestClassifyRefuses(t *testing.T) {
	for _, row := range []struct {
		name   string
		answer Answer
		want   string
	}{
		{"no status", Answer{}, "status must be from 100 to 599: 0"},
		{"10 MB", Answer{429, nil, make([]byte, 10<<20)}, "the body has 10485760 bytes, at most 65536 are read"},
		{"not UTF-8", Answer{429, nil, []byte("\x1f\x8b\xff")}, "the body is not UTF-8 text; a compressed one must be decompressed first"},
	} {
		t.Run(row.name, func(t *testing.T) {
			v, err := Classify(row.answer, Format{}, now)
			if err == nil || err.Error() != row.want {
				t.Errorf("got %v and %+v, want %q", err, v, row.want)
			}
		})
	}
}

// A reset that cannot be right is as if it were absent.
func TestResetsThatCannotBeRight(t *testing.T) {
	for _, row := range []struct {
		name, reset string
		encoding    Encoding
		is          bool
	}{
		{"seconds taken for a time", "3600", Epoch, false},
		{"a time taken for seconds", "1790350200", Seconds, false},
		{"ten years ahead", "2036-09-25T00:00:00Z", RFC3339, false},
		{"yesterday", "2026-09-24T00:00:00Z", RFC3339, false},
		{"no time at all", "soon", RFC3339, false},
		{"less than nothing", "-1", Seconds, false},
		{"in a month", "2026-10-25T00:00:00Z", RFC3339, true},
		{"in a while", "1h16m0.6s", Duration, true},
	} {
		format := Format{Headers: Headers{Reset: "X-Reset", ResetIs: row.encoding, Remaining: "X-Remaining"}}
		v, err := Classify(Answer{429, header("X-Remaining: 0", "X-Reset: "+row.reset), nil}, format, now)
		if err != nil || v.Class != Day || v.Reset.IsZero() == row.is {
			t.Errorf("%s: got %+v, %v", row.name, v, err)
		}
	}
	lastYear := strings.ReplaceAll(searches2026, "1790319600", "1758783600")
	if v, err := Classify(Answer{429, nil, []byte(lastYear)}, Format{Day: pacific(t)}, now); err != nil || v.Class != Day || !v.Reset.IsZero() {
		t.Errorf("got %+v, %v", v, err)
	}
}

// What an answer does not say is not zero.
func TestAbsentIsNotZero(t *testing.T) {
	for _, h := range []http.Header{nil, header("X-Ratelimit-Remaining: "), header("X-Ratelimit-Remaining: many"), header("X-Ratelimit-Remaining: -1")} {
		v, err := Classify(Answer{Status: 403, Header: h}, github, now)
		if err != nil || v.Class != OK || len(v.Left) != 0 || !v.Reset.IsZero() {
			t.Errorf("%v: got %+v, %v, want ok and nothing known", h, v, err)
		}
	}
}

// A header is read as curl writes it.
func TestHeader(t *testing.T) {
	status, h, err := ParseHeader("HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nHTTP/2 429 \r\nset-cookie: secret\r\nretry-after: 7\r\nX-RateLimit-Remaining: 0\r\n\r\n")
	if err != nil || status != 429 || h.Get("Retry-After") != "7" || h.Get("Via") != "" || h.Get("Set-Cookie") == "" {
		t.Errorf("got %d, %v, %v", status, h, err)
	}
	for _, wrong := range []string{"<html>", "HTTP/1.1", ": x"} {
		if _, _, err := ParseHeader("A: b\n" + wrong); err == nil {
			t.Errorf("%q is no error", wrong)
		}
	}
}

func FuzzClassify(f *testing.F) {
	for _, body := range []string{searches2026, perMinute2022, gemini, `{"error":"x"}`, `[{"errorCode":"y"}]`, `{"propertyQuota":{"a":{"remaining":1e300}}}`, "\xff"} {
		f.Add(429, "60", "1790350200", []byte(body))
	}
	day := pacific(f)
	f.Fuzz(func(t *testing.T, status int, after, reset string, body []byte) {
		h := http.Header{"Retry-After": {after}, "X-Ratelimit-Reset": {reset}, "X-Ratelimit-Remaining": {after}}
		format := github
		format.Day = day
		v, err := Classify(Answer{status, h, body}, format, now)
		if err != nil {
			return
		}
		if status < 400 && v.Class == Day && !strings.Contains(string(body), "error") {
			t.Errorf("status %d closes a day", status)
		}
		if !v.Reset.IsZero() && (v.Reset.Before(now.Add(-skew)) || v.Reset.After(now.Add(maxReset))) {
			t.Errorf("resets at %v", v.Reset)
		}
		for _, text := range append(v.Names, v.Says) {
			if !utf8.ValidString(text) || utf8.RuneCountInString(text) > maxLine+1 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("says %q", text)
			}
		}
		for _, l := range v.Left {
			for _, a := range []Amount{l.Limit, l.Used, l.Remaining} {
				if a.Units < 0 || a.Units > quota.MaxUnits || !a.Known && a.Units != 0 {
					t.Errorf("left %+v", l)
				}
			}
		}
	})
}
