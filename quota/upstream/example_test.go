package upstream_test

import (
	"fmt"
	"log"
	"net/http"
	"time"

	"quotad/quota/upstream"
)

// YouTube answers 403 to a caller who is too quick, to one whose day is over, and to one whose project may not
// use the API. The reason says which it is.
func ExampleClassify() {
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	for _, body := range []string{
		`{"error":{"code":403,"message":"The request cannot be completed because you have exceeded your quota.","errors":[{"domain":"youtube.quota","reason":"quotaExceeded"}]}}`,
		`{"error":{"code":403,"message":"User Rate Limit Exceeded","errors":[{"domain":"usageLimits","reason":"userRateLimitExceeded"}]}}`,
		`{"error":{"code":403,"message":"YouTube Data API has not been used in project 1 before or it is disabled.","errors":[{"domain":"usageLimits","reason":"accessNotConfigured"}]}}`,
	} {
		v, err := upstream.Classify(upstream.Answer{Status: http.StatusForbidden, Body: []byte(body)}, upstream.Format{}, now)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", v.Class, v.Says)
	}
	// Output:
	// day: The request cannot be completed because you have exceeded your quota.
	// minute: User Rate Limit Exceeded
	// key: YouTube Data API has not been used in project 1 before or it is disabled.
}
