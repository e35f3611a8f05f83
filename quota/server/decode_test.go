package server

import (
	"encoding/json"
	"testing"

	"quotad/quota/api"
)

// FuzzBody checks that a body of JSON which is accepted is one well-formed object, and that a form which is accepted is
// written as one.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"credential":"youtube","operation":"videos.list","count":5,"request_id":"a","use_reserve":true}`,
		`{"operation":"a","operation":"b"}`, `{"count":1e3}`, `{"count":9007199254740993}`, `[[[[`, `{"a":["b",{}]}`, `{"count":1,}`, `{"":""}`, ``, `{}1`,
		`credential=youtube&operation=videos.list&count=5`, `a=%zz`, `=`, `&&`, `count=5&count=6`, `count=+6`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, text, err := readForm(string(body)); err == nil && !json.Valid([]byte(text)) {
			t.Fatalf("%q is written as %q", body, text)
		}
		var got, want api.AcquireRequest
		if readJSON(string(body), &got) != nil {
			return
		}
		if err := json.Unmarshal(body, &want); err != nil || got != want {
			t.Fatalf("%q: got %+v, want %+v (%v)", body, got, want, err)
		}
	})
}
