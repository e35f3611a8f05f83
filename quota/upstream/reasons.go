package upstream

import "strings"

// certain are reasons that mean one thing, whatever the words beside them say.
var certain = byReason(map[Class]string{
	// All of google.api.ErrorReason, google/api/error_reason.proto, but for what is in unclear.
	// IAM_PERMISSION_DENIED is about one resource, like a 403 that names no reason.
	Config: `SERVICE_DISABLED SERVICE_NOT_VISIBLE MCP_SERVER_DISABLED
		API_KEY_INVALID API_KEY_SERVICE_BLOCKED API_KEY_HTTP_REFERRER_BLOCKED API_KEY_IP_ADDRESS_BLOCKED
		API_KEY_ANDROID_APP_BLOCKED API_KEY_IOS_APP_BLOCKED
		CONSUMER_SUSPENDED CONSUMER_INVALID GCP_SUSPENDED USER_PROJECT_DENIED RESOURCE_PROJECT_INVALID
		ACCESS_TOKEN_EXPIRED ACCESS_TOKEN_SCOPE_INSUFFICIENT ACCESS_TOKEN_TYPE_UNSUPPORTED JWT_TOKEN_INVALID
		ACCOUNT_STATE_INVALID ACCOUNT_TYPE_UNSUPPORTED USER_BLOCKED_BY_ADMIN SESSION_COOKIE_INVALID MISSING_ORIGIN
		CREDENTIALS_MISSING CREDENTIAL_ANDROID_APP_INVALID CREDENTIAL_TYPE_UNSUPPORTED OVERLOADED_CREDENTIALS
		SECURITY_POLICY_VIOLATED ORG_RESTRICTION_VIOLATION ORG_RESTRICTION_HEADER_INVALID
		LOCATION_POLICY_VIOLATED LOCATION_ORG_POLICY_VIOLATED LOCATION_TAX_POLICY_VIOLATED
		TLS_ORG_POLICY_VIOLATED TLS_CIPHER_RESTRICTION_VIOLATED SYSTEM_PARAMETER_UNSUPPORTED
		RESOURCE_USAGE_RESTRICTION_VIOLATED ENDPOINT_USAGE_RESTRICTION_VIOLATED RESOURCE_QUOTA_EXCEEDED ` +
		// Google's older reasons, developers.google.com/webmaster-tools/v1/errors.
		`accessNotConfigured domainPolicy ipRefererBlocked keyExpired keyInvalid refererBlocked
		dailyLimitExceededUnreg rateLimitExceededUnreg userRateLimitExceededUnreg ` +
		// OpenAI's, Facebook's tokens, and Google Maps'.
		`invalid_api_key OAuthException/102 OAuthException/190 REQUEST_DENIED`,
	Billing: `BILLING_DISABLED billingNotEnabled insufficient_quota billing_hard_limit_reached
		UsageCapExceeded SpendCapReached usage-capped`,
	Day: `dailyLimitExceeded variableTermLimitExceeded variableTermExpiredDailyExceeded`,
	// Facebook's limits of a rate, whose messages may be in any language:
	// developers.facebook.com/docs/graph-api/overview/rate-limiting
	Minute: `servingLimitExceeded concurrentLimitExceeded OAuthException/4 OAuthException/17 OAuthException/32
		OAuthException/341 OAuthException/613 OAuthException/80000 OAuthException/80001 OAuthException/80002
		OAuthException/80003 OAuthException/80004 OAuthException/80005 OAuthException/80006 OAuthException/80008
		OAuthException/80009 OAuthException/80014`,
	OK: `IAM_PERMISSION_DENIED storageQuotaExceeded downloadQuotaExceeded`,
})

// unclear are reasons that upstreams use of a rate and of a day alike, with what they mean where
// no words decide.
var unclear = byReason(map[Class]string{
	Day: `quotaExceeded REQUEST_LIMIT_EXCEEDED OVER_DAILY_LIMIT`,
	Minute: `RATE_LIMIT_EXCEEDED rateLimitExceeded userRateLimitExceeded rate_limit_exceeded limitExceeded OVER_QUERY_LIMIT
		SlowDown RequestLimitExceeded ` + throttled,
	Unknown: `EMULATOR_QUOTA_EXCEEDED`,
})

// These are reasons for which an answer with a status of 200 refuses: of errors of GraphQL, Shopify's,
// GitHub's and Linear's; and of Google Maps, as its status beside an error_message.
const (
	throttled = "THROTTLED"
	ofGraphQL = " " + throttled + " RATE_LIMITED RATELIMITED "
	ofMaps    = " OVER_QUERY_LIMIT OVER_DAILY_LIMIT REQUEST_DENIED "
)

func byReason(lists map[Class]string) map[string]Class {
	table := map[string]Class{}
	for class, list := range lists {
		for _, reason := range strings.Fields(list) {
			table[reason] = class
		}
	}
	return table
}

// gravest returns the class of several reasons by a table: of what needs a person, if any does,
// else of what lasts longest.
func gravest(reasons []string, table map[string]Class) Class {
	for _, class := range []Class{Config, Billing, Day, Minute, Unknown, OK} {
		for _, reason := range reasons {
			if table[reason] == class {
				return class
			}
		}
	}
	return ""
}
