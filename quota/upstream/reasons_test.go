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
		want[reason] = Config
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
		file    map[string]Class
		want    Class
	}{
		{reasons: []string{"servingLimitExceeded", "dailyLimitExceeded"}, want: Day},
		{reasons: []string{"dailyLimitExceeded", "keyInvalid"}, want: Config},
		{reasons: []string{"rateLimitExceeded", "quotaExceeded"}, want: Day},
		{reasons: []string{"servingLimitExceeded"}, file: map[string]Class{"servingLimitExceeded": Day}, want: Day},
		{reasons: []string{"keyInvalid"}, file: map[string]Class{"keyInvalid": OK}, want: OK},
	} {
		body := `{"error":{"errors":[{"reason":"` + strings.Join(row.reasons, `"},{"reason":"`) + `"}]}}`
		v, err := Classify(Answer{Status: 403, Body: []byte(body)}, Format{Reasons: row.file}, now)
		if err != nil || v.Class != row.want {
			t.Errorf("%q: got %s, %v, want %s", row.reasons, v.Class, err, row.want)
		}
	}
}

// Words decide what a reason leaves open, however they write a span of time; a range of data is none.
func TestSpans(t *testing.T) {
	for message, want := range map[string]Class{
		"You may make 5 requests a second.":                      Minute,
		"Quota of 1000 requests / 100 seconds is exceeded.":      Minute,
		"Quota of 1000 requests/100s is exceeded.":               Minute,
		"Queries per hundred seconds":                            Minute,
		"Queries per 1,000 seconds":                              Minute,
		"500 requests in 60 sec":                                 Minute,
		"The 100-second quota is used up.":                       Minute,
		"Quota exceeded for GET /m":                              Day,
		"Quota exceeded for limit 'Calls per 30 days per user'.": Day,
	} {
		body := fmt.Sprintf(`{"error":{"errors":[{"reason":"quotaExceeded","message":%q}]}}`, message)
		if v, err := Classify(Answer{Status: 403, Body: []byte(body)}, Format{}, now); err != nil || v.Class != want {
			t.Errorf("%s: got %s, %v, want %s", message, v.Class, err, want)
		}
	}
	for message, want := range map[string]Class{
		"The range exceeds the limit: only the last 90 days are kept.":     OK,
		"Your plan limits this to posts within the last 7 days.":           OK,
		"You have exceeded the limit of 9 requests within the last 7 days": Day,
		"Deadline exceeded: the call did not end within 30 seconds.":       OK,
		"Too many calls within 30 seconds":                                 Minute,
		"Daily message quota exceeded":                                     Day,
		"Quota exceeded, limit: 0.5 rps":                                   Minute,
		"Quota exceeded, limit: 0.":                                        Config,
	} {
		if v, err := Classify(Answer{Status: 400, Body: fmt.Appendf(nil, `{"message":%q}`, message)}, Format{}, now); err != nil || v.Class != want {
			t.Errorf("%s: got %s, %v, want %s", message, v.Class, err, want)
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
		{"a rate at its end", `{"error":{"message":"` + strings.Repeat("x ", 30_000) + `rate limit exceeded"}}`, Minute},
		{"many reasons", many + `{"reason":"dailyLimitExceeded"}]}}`, Day},
		{"deep", deep + `"x"` + strings.Repeat("}", 6000), Unknown},
		{"not closed", deep, Unknown},
		{"text", strings.Repeat("per day ", MaxBody/8), Day},
	} {
		t.Run(row.name, func(t *testing.T) {
			if v, err := Classify(Answer{Status: 429, Body: []byte(row.body)}, Format{}, now); err != nil || v.Class != row.want {
				t.Errorf("got %s, %v, want %s", v.Class, err, row.want)
			}
		})
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
