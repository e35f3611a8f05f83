package upstream

import (
	"fmt"
	"strings"
	"testing"
)

// Each value of google.api.ErrorReason has a class.
func TestErrorReasons(t *testing.T) {
	want := map[string]Class{
		"RATE_LIMIT_EXCEEDED": Minute, "BILLING_DISABLED": Billing, "IAM_PERMISSION_DENIED": OK,
		"EMULATOR_QUOTA_EXCEEDED": Unknown, "ERROR_REASON_UNSPECIFIED": Unknown, "ONE_THAT_IS_NEW": Unknown,
	}
	for _, reason := range strings.Fields(`SERVICE_DISABLED API_KEY_INVALID API_KEY_SERVICE_BLOCKED API_KEY_HTTP_REFERRER_BLOCKED
		API_KEY_IP_ADDRESS_BLOCKED API_KEY_ANDROID_APP_BLOCKED API_KEY_IOS_APP_BLOCKED RESOURCE_QUOTA_EXCEEDED
		LOCATION_TAX_POLICY_VIOLATED USER_PROJECT_DENIED CONSUMER_SUSPENDED CONSUMER_INVALID SECURITY_POLICY_VIOLATED
		ACCESS_TOKEN_EXPIRED ACCESS_TOKEN_SCOPE_INSUFFICIENT ACCOUNT_STATE_INVALID ACCESS_TOKEN_TYPE_UNSUPPORTED
		CREDENTIALS_MISSING RESOURCE_PROJECT_INVALID SESSION_COOKIE_INVALID USER_BLOCKED_BY_ADMIN
		RESOURCE_USAGE_RESTRICTION_VIOLATED SYSTEM_PARAMETER_UNSUPPORTED ORG_RESTRICTION_VIOLATION
		ORG_RESTRICTION_HEADER_INVALID SERVICE_NOT_VISIBLE GCP_SUSPENDED LOCATION_POLICY_VIOLATED MISSING_ORIGIN
		OVERLOADED_CREDENTIALS LOCATION_ORG_POLICY_VIOLATED TLS_ORG_POLICY_VIOLATED CREDENTIAL_ANDROID_APP_INVALID
		JWT_TOKEN_INVALID CREDENTIAL_TYPE_UNSUPPORTED ACCOUNT_TYPE_UNSUPPORTED ENDPOINT_USAGE_RESTRICTION_VIOLATED
		TLS_CIPHER_RESTRICTION_VIOLATED MCP_SERVER_DISABLED`) {
		want[reason] = Key
	}
	for reason, class := range want {
		for _, status := range []int{400, 403, 429} {
			body := fmt.Sprintf(`{"error":{"code":%d,"message":"Refused.","errors":[{"reason":"forbidden"}],"status":"PERMISSION_DENIED",
				"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":%q,"domain":"googleapis.com"}]}}`, status, reason)
			if v, err := Classify(Answer{Status: status, Body: []byte(body)}, Format{}, now); err != nil || v.Class != class {
				t.Errorf("%s with %d: got %s, %v, want %s", reason, status, v.Class, err, class)
			}
		}
	}
	// Elsewhere the reasons of others are not known.
	body := `{"error":{"details":[{"reason":"ONE_THAT_IS_NEW","domain":"shop.example.com"}]}}`
	if v, err := Classify(Answer{Status: 403, Body: []byte(body)}, Format{}, now); err != nil || v.Class != OK {
		t.Errorf("got %s, %v, want ok", v.Class, err)
	}
}

// Of several reasons the gravest counts, wherever it stands. What the file says of one outranks what is common.
func TestWhichReasonCounts(t *testing.T) {
	for _, row := range []struct {
		reasons []string
		file    Reasons
		want    Class
	}{
		{reasons: []string{"servingLimitExceeded", "dailyLimitExceeded"}, want: Day},
		{reasons: []string{"dailyLimitExceeded", "keyInvalid"}, want: Key},
		{reasons: []string{"rateLimitExceeded", "quotaExceeded"}, want: Day},
		{reasons: []string{"servingLimitExceeded"}, file: Reasons{"servingLimitExceeded": Day}, want: Day},
		{reasons: []string{"keyInvalid"}, file: Reasons{"keyInvalid": OK}, want: OK},
	} {
		body := `{"error":{"errors":[{"reason":"` + strings.Join(row.reasons, `"},{"reason":"`) + `"}]}}`
		v, err := Classify(Answer{Status: 403, Body: []byte(body)}, Format{Reasons: row.file}, now)
		if err != nil || v.Class != row.want {
			t.Errorf("%q: got %s, %v, want %s", row.reasons, v.Class, err, row.want)
		}
	}
}

// A body as long as may be is read, and what stands at its end counts.
func TestLongBodies(t *testing.T) {
	deep := strings.Repeat(`{"error":`, 6000)
	many := `{"error":{"errors":[`
	for i := range 3000 {
		many += fmt.Sprintf(`{"reason":"r%d"},`, i)
	}
	for _, row := range []struct {
		name, body string
		want       Class
	}{
		{"one message", `{"error":{"message":"` + strings.Repeat("x", MaxBody-26) + `"}}`, Unknown},
		{"a rate at its end", `{"error":{"status":"RESOURCE_EXHAUSTED","message":"` + strings.Repeat("x ", 30_000) + `rate limit exceeded"}}`, Minute},
		{"many reasons", many + `{"reason":"dailyLimitExceeded"}]}}`, Day},
		{"deep", deep + `"x"` + strings.Repeat("}", 6000), Unknown},
		{"not closed", deep, Unknown},
		{"text", strings.Repeat("per day ", MaxBody/8), Unknown},
	} {
		t.Run(row.name, func(t *testing.T) {
			if v, err := Classify(Answer{Status: 429, Body: []byte(row.body)}, Format{}, now); err != nil || v.Class != row.want {
				t.Errorf("got %s, %v, want %s", v.Class, err, row.want)
			}
		})
	}
}

// A file says where the reason stands, and what it means, whatever the status is.
func TestReasonsOfAFile(t *testing.T) {
	const twelve = `{"code":429,"message":"You have run out of API credits for the day. 801 were used.","status":"error"}`
	reasons := Reasons{"429": Unknown, "*for the day*": Day, "*for the current minute*": Minute, "OVER_QUERY_LIMIT": Day, "true": Key, "2.5": Billing, "*": Minute}
	for _, row := range []struct {
		name, pointers string
		status         int
		body           string
		want           Class
	}{
		{"a text", "/status", 200, `{"status":"OVER_QUERY_LIMIT"}`, Day},
		{"a text of no table", "/status", 200, `{"status":"ZERO_RESULTS"}`, Minute},
		{"a pattern", "/message", 200, twelve, Day},
		{"a number", "/code", 200, twelve, Unknown},
		{"two that disagree: the first", "/message /code", 429, twelve, Day},
		{"two that disagree, the other way", "/code /message", 429, twelve, Unknown},
		{"a fraction", "/code", 200, `{"code":2.5}`, Billing},
		{"a truth value", "/blocked", 200, `{"blocked":true}`, Key},
		{"in a list", "/errors/1/type", 200, `{"errors":[{},{"type":"OVER_QUERY_LIMIT"}]}`, Day},
		{"beyond a list", "/errors/2/type", 200, `{"errors":[{},{"type":"OVER_QUERY_LIMIT"}]}`, OK},
		{"a list, by a name", "/errors/type", 200, `{"errors":[{"type":"OVER_QUERY_LIMIT"}]}`, OK},
		{"it meets a list", "/errors", 200, `{"errors":["OVER_QUERY_LIMIT"]}`, OK},
		{"it meets a number on its way", "/code/of", 200, twelve, OK},
		{"nothing there", "/reason", 200, twelve, OK},
		{"null", "/code", 200, `{"code":null}`, OK},
		{"escapes", "/a~1b/c~0d", 200, `{"a/b":{"c~d":"OVER_QUERY_LIMIT"}}`, Day},
		{"a body that is not JSON", "/status", 200, `status=OVER_QUERY_LIMIT`, OK},
		{"one that is cut", "/status", 200, `{"status":"OVER_QUERY_LIMIT"`, OK},
		{"Google's own, and no pointer", "", 403, `{"error":{"errors":[{"reason":"OVER_QUERY_LIMIT"}]}}`, Day},
		{"a status", "", 429, ``, Unknown},
	} {
		f := Format{Reasons: reasons}
		for _, text := range strings.Fields(row.pointers) {
			p, err := ParsePointer(text)
			if err != nil {
				t.Fatal(err)
			}
			f.Reason = append(f.Reason, p)
		}
		if v, err := Classify(Answer{Status: row.status, Body: []byte(row.body)}, f, now); err != nil || v.Class != row.want {
			t.Errorf("%s: got %s, %v, want %s", row.name, v.Class, err, row.want)
		}
	}
	stray := Format{Reasons: Reasons{"429": OK}} // of a pool that all share
	if v, err := Classify(Answer{Status: 429, Body: []byte(`{"message":"Too Many Requests"}`)}, stray, now); err != nil || v.Class != OK {
		t.Errorf("got %s, %v, want that the file says ok", v.Class, err)
	}
	for _, wrong := range []string{"", "status", "#/status", "/a~2", "/a~"} {
		if p, err := ParsePointer(wrong); err == nil {
			t.Errorf("%q is taken for %q", wrong, p)
		}
	}
}

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		`exceeded your <a href="/youtube/v3/getting-started#quota">quota</a>.`: "exceeded your quota.",
		`&lt;code&gt;id&lt;/code&gt; isn&#39;t &quot;there&quot; &amp; gone`:   `id isn't "there" & gone`,
		"Requests from referer <empty> are blocked.":                           "Requests from referer <empty> are blocked.",
		"a<br/>b<!-- c --> 1 < 2 > 0":                                          "ab 1 < 2 > 0",
		"see https://x.example/?part=a&region=US&copy=1":                       "see https://x.example/?part=a&region=US&copy=1",
		"https://x.example/?a=1&amp;key=AIzaSecret.":                           "https://x.example/?a=1&key=…",
		"&#27;[31mred&#10;line":                                                "[31mred line",
	} {
		if got := Line(text); got != want {
			t.Errorf("%s\n got %q\nwant %q", text, got, want)
		}
	}
}
