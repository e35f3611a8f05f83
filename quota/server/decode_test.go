package server

import (
	"encoding/json"
	"testing"

	"quotad/quota"
	"quotad/quota/api"
)

// FuzzBody checks that what is accepted is in range, and that a body of JSON which is accepted is one
// well-formed object.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"credential":"youtube","operation":"videos.list","count":5,"request_id":"a","use_reserve":true}`,
		`{"operation":"a","operation":"b"}`, `{"count":1e3}`, `{"count":9007199254740993}`, `[[[[`, `{"a":["b",{}]}`, `{"count":1,}`, `{"":""}`, ``, `{}1`,
		`credential=youtube&operation=videos.list&count=5`, `a=%zz`, `=`, `&&`, `count=5&count=6`, `count=+6`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		d := newDecoder[api.AcquireRequest]()
		if got, err := d.parse(isForm, string(body)); err == nil {
			checkRange(t, got)
		}
		got, err := d.parse(isJSON, string(body))
		if err != nil || len(body) == 0 {
			return
		}
		checkRange(t, got)
		var want api.AcquireRequest
		if err := json.Unmarshal(body, &want); err != nil || got != want {
			t.Fatalf("%q: got %+v, want %+v (%v)", body, got, want, err)
		}
	})
}

func checkRange(t *testing.T, got api.AcquireRequest) {
	if got.Count > int64(quota.MaxUnits) || len(got.Credential) > maxText || len(got.Operation) > maxText || len(got.RequestID) > maxText {
		t.Fatalf("out of range: %+v", got)
	}
}
