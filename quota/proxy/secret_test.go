package proxy

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"quotad/quota"
	"quotad/quota/server/servertest"
	"quotad/quota/upstream"
)

// spellings are ways to write the key that are found.
func spellings() map[string]string {
	every := func(format string) (text string) {
		for _, c := range []byte(realKey) {
			text += fmt.Sprintf(format, c)
		}
		return text
	}
	return map[string]string{
		"as it is":            realKey,
		"percent-encoded":     every("%%%02X"),
		"in lower case":       every("%%%02x"),
		"in part":             "AI%7aa-the%2Dreal-key",
		"escaped as in JSON":  every(`\u%04x`),
		"escaped as in C":     every(`\x%02X`),
		"escaped a character": strings.ReplaceAll(realKey, "-", `\-`),
	}
}

// The key is found in every spelling, wherever reads end, and overwritten by as many
// asterisks; nothing else is changed.
func TestKeyIsHidden(t *testing.T) {
	for name, written := range spellings() {
		t.Run(name, func(t *testing.T) {
			text := "AIza AIza-the-AI" + written + `%41I\u00` + written + written + "AIza-the-real-ke%4"
			hidden := strings.Repeat("*", len(written))
			want := "AIza AIza-the-AI" + hidden + `%41I\u00` + hidden + hidden + "AIza-the-real-ke%4"
			for split := range len(text) + 1 {
				in := io.MultiReader(strings.NewReader(text[:split]), strings.NewReader(text[split:]))
				body := &keylessBody{ReadCloser: io.NopCloser(in), key: realKey, ended: func() {}}
				if got, err := io.ReadAll(body); string(got) != want || err != nil {
					t.Fatalf("split at %d: read %s %v\nwant %s", split, got, err, want)
				}
			}
			body := &keylessBody{ReadCloser: io.NopCloser(iotest.OneByteReader(strings.NewReader(text))), key: realKey, ended: func() {}}
			if got, err := io.ReadAll(body); string(got) != want || err != nil {
				t.Errorf("byte by byte: read %s %v\nwant %s", got, err, want)
			}
			if got := secret(realKey).redacted(text); got != want {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
}

// A key may hold what an escape begins with.
func TestKeyWithEscapes(t *testing.T) {
	for _, key := range []string{`a%41b`, `a\u0041\\`, `\/`, `+/=%`} {
		for _, written := range []string{key, url.QueryEscape(key)} {
			if got, want := secret(key).redacted("<"+written+">"), "<"+strings.Repeat("*", len(written))+">"; got != want {
				t.Errorf("%s written %s: got %s, want %s", key, written, got, want)
			}
		}
	}
}

// All fields that say how a body is encoded count.
func TestEncodingOf(t *testing.T) {
	for want, lines := range map[string][]string{
		"": {"identity", "", " Identity "}, "gzip": {"", "GZIP , identity"}, "gzip, gzip": {"gzip, gzip"}, "gzip,br": {"gzip", "br"},
	} {
		if got := encodingOf(http.Header{"Content-Encoding": lines}); got != want {
			t.Errorf("%q: got %q, want %q", lines, got, want)
		}
	}
}

// An upstream without a key gets the client's own, but not the run token, and its answers are passed
// on as they are.
func TestUpstreamWithoutAKey(t *testing.T) {
	got := make(chan *http.Request, 1)
	s := newScene(t, func(w http.ResponseWriter, r *http.Request) {
		got <- r
		w.Header().Set("Content-Encoding", "br")
		io.WriteString(w, "a % and a \\u0074")
	}, func(_ *Config, target *Target) { target.Key = nil })
	header := http.Header{"Authorization": {"Bearer own"}, "X-Goog-Api-Key": {runToken}}
	a := s.do("GET", s.base+"youtube/v3/videos?part=id&key=own&token="+runToken, header, nil)
	r := <-got
	if a.status != 200 || a.body != "a % and a \\u0074" || a.header.Get("Content-Encoding") != "br" {
		t.Errorf("answered %+v", a)
	}
	if r.URL.RawQuery != "part=id&key=own" || r.Header.Get("Authorization") != "Bearer own" || r.Header[apiKeyHeader] != nil {
		t.Errorf("sent %s %v", r.URL, r.Header)
	}
	other := strings.ReplaceAll(apiKeyHeader, "-", "_")
	s.do("GET", s.base+"youtube/v3/videos", http.Header{apiKeyHeader: {"own"}, other: {"other"}}, nil)
	if r := <-got; r.Header.Get(apiKeyHeader) != "own" || r.Header[other] != nil {
		t.Errorf("sent %v", r.Header)
	}
}

// A key may be a parameter of the query. It replaces the client's own, and what the client has in the
// header of a key is not sent.
func TestKeyAsParameter(t *testing.T) {
	got := make(chan *http.Request, 1)
	s := newScene(t, func(w http.ResponseWriter, r *http.Request) {
		got <- r
		fmt.Fprintf(w, `{"self":%q}`, r.URL.String())
	}, func(_ *Config, target *Target) { target.KeyHeader, target.KeyParameter = authorization, "api_key" })
	for query, want := range map[string]string{
		"?part=id&api_key=none": "part=id&api_key=" + realKey,
		"?api_key=none&api_key": "api_key=" + realKey,
		"":                      "api_key=" + realKey,
		"?%61pi_key=x&a=b":      "a=b&api_key=" + realKey,
	} {
		a := s.do("GET", s.base+"youtube/v3/videos"+query, http.Header{"Authorization": {"apikey none"}}, nil)
		if r := <-got; r.URL.RawQuery != want || r.Header.Get("Authorization") != "" {
			t.Errorf("%s: sent %s %v, want %s", query, r.URL, r.Header, want)
		}
		if a.status != 200 || strings.Contains(a.body, realKey) {
			t.Errorf("answered %+v", a)
		}
	}
	s.do("GET", s.proxy.Root()+"/youtube/v3/videos?api_key="+runToken, nil, nil)
	if r := <-got; r.URL.RawQuery != "api_key="+realKey {
		t.Errorf("sent %s for the run token as key", r.URL)
	}
}

// What a client sends as its own key is in nothing that quotad records of an error.
func TestClientsKeyIsNotObserved(t *testing.T) {
	var says []string
	s := newScene(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(403)
		fmt.Fprintf(w, `{"error":{"code":403,"message":"Consumer %s %s of %s is over its quota","errors":[{"reason":"quotaExceeded","domain":"youtube.quota"}]}}`,
			r.Header.Get("Authorization"), r.URL.Query().Get("apikey"), r.Header.Get("X-Api-Key"))
	}, func(c *Config, target *Target) {
		target.Key = nil
		c.Observer = upstream.NewObserver(c.Service, nil, func(out upstream.Outcome) { says = append(says, out.Says) })
	})
	a := s.do("GET", s.base+"youtube/v3/videos?apikey=key-in-the-query", http.Header{"Authorization": {"Bearer ya29.key-in-a-header"}, "X-Api-Key": {"key-in-another"}}, nil)
	if !strings.Contains(a.body, "Bearer ya29.key-in-a-header key-in-the-query of key-in-another") {
		t.Errorf("the client got %+v", a)
	}
	s.settled(1)
	if len(says) != 1 || says[0] != "Consumer Bearer ******************** **************** of ************** is over its quota" {
		t.Errorf("observed %q", says)
	}
}

// leaks are answers that hold the key, each in a place of its own.
var leaks = map[string]func(w http.ResponseWriter, key string){
	"body": func(w http.ResponseWriter, key string) { fmt.Fprintf(w, `{"key":%q}`, key) },
	"body of a length": func(w http.ResponseWriter, key string) {
		w.Header().Set("Content-Length", fmt.Sprint(len(key)))
		io.WriteString(w, key)
	},
	"refusal": func(w http.ResponseWriter, key string) {
		w.WriteHeader(403)
		fmt.Fprintf(w, `{"error":{"code":403,"message":"Consumer 'api_key:%s' has been suspended.","errors":[{"domain":"usageLimits","reason":"quotaExceeded","message":"key %s"}],"details":[{"reason":"%s","metadata":{"quota_limit":"%s"}}]}}`, key, key, key, key)
	},
	"redirect": func(w http.ResponseWriter, key string) {
		w.Header().Set("Location", "https://other.example/?key="+key)
		w.WriteHeader(302)
		fmt.Fprintf(w, `<a href="https://other.example/?key=%s">Found</a>`, key)
	},
	"header": func(w http.ResponseWriter, key string) {
		w.Header()["X-Echo"] = []string{"one", "Bearer " + key}
		w.Header()["Set-Cookie"] = []string{"k=" + key}
		w.Header()["X-"+key] = []string{"its name"}
	},
	"header of a refusal": func(w http.ResponseWriter, key string) {
		w.Header().Set("X-Consumer", "api_key:"+key)
		w.WriteHeader(403)
	},
	"early header": func(w http.ResponseWriter, key string) {
		w.Header().Set("Link", "</a?key="+key+">; rel=preload")
		w.WriteHeader(103)
		w.Header().Del("Link")
		io.WriteString(w, "{}")
	},
	"trailer": func(w http.ResponseWriter, key string) {
		w.Header().Set("Trailer", "X-After")
		io.WriteString(w, "{}")
		w.Header().Set("X-After", key)
		w.Header().Set(http.TrailerPrefix+"X-Unannounced", key)
	},
	"two reads": func(w http.ResponseWriter, key string) {
		for _, part := range []string{"first " + key[:5], key[5:9], key[9:] + " last"} {
			io.WriteString(w, part)
			w.(http.Flusher).Flush()
		}
	},
	"compressed": func(w http.ResponseWriter, key string) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(zip(key))
	},
	"compressed, in two lines": func(w http.ResponseWriter, key string) {
		w.Header()["Content-Encoding"] = []string{"identity", "gzip"}
		w.Write(zip(key))
	},
	"compressed twice": func(w http.ResponseWriter, key string) {
		w.Header()["Content-Encoding"] = []string{"gzip", "", "gzip"}
		w.Write(zip(string(zip(key))))
	},
	"compressed refusal": func(w http.ResponseWriter, key string) {
		w.Header().Set("Content-Encoding", "GZIP")
		w.WriteHeader(403)
		w.Write(zip(`{"error":{"code":403,"message":"` + key + `","errors":[{"domain":"youtube.quota","reason":"quotaExceeded","message":"` + key + `"}]}}`))
	},
	"status line": func(w http.ResponseWriter, key string) {
		hijack(w, "HTTP/1.1 403 "+key+"\r\nContent-Length: 0\r\n\r\n")
	},
	"no answer":  func(w http.ResponseWriter, key string) { hijack(w, key+"\r\n\r\n") },
	"no status":  func(w http.ResponseWriter, key string) { hijack(w, "HTTP/1.1 "+key+"\r\n\r\n") },
	"bad header": func(w http.ResponseWriter, key string) { hijack(w, "HTTP/1.1 200 OK\r\n"+key+"\r\n\r\n") },
	"bad trailer": func(w http.ResponseWriter, key string) {
		hijack(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"+key+"\r\n\r\n")
	},
	"bad chunk": func(w http.ResponseWriter, key string) {
		hijack(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+key+"\r\n")
	},
	"unreadable": func(w http.ResponseWriter, key string) {
		w.Header().Set("Content-Encoding", "br, "+key)
		io.WriteString(w, key)
	},
}

func hijack(w http.ResponseWriter, text string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	io.WriteString(conn, text)
}

// Wherever an upstream puts the key, neither the client, the ledger, nor what is told of
// the call, of the observation and by net/http holds it.
func TestKeyInEveryPlace(t *testing.T) {
	for place, leak := range leaks {
		t.Run(place, func(t *testing.T) {
			var told, complained servertest.Text
			s := newScene(t, func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Accept-Encoding"); got != "identity" {
					t.Errorf("asked for the encoding %q", got)
				}
				leak(w, r.Header.Get(apiKeyHeader))
			}, func(c *Config, _ *Target) {
				c.Observer = upstream.NewObserver(c.Service, nil, func(o upstream.Outcome) { fmt.Fprintf(&told, "%+v\n", o) })
				c.ErrorLog = log.New(&complained, "", 0)
			})
			r, _ := http.NewRequest("GET", s.base+"youtube/v3/videos", nil)
			r.Header.Set("Accept-Encoding", "gzip, br")
			var early textproto.MIMEHeader
			r = r.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(_ int, h textproto.MIMEHeader) error { early = h; return nil },
			}))
			res, err := s.client.Do(r)
			if err != nil {
				res = &http.Response{Body: http.NoBody} // it was cut before any of it had passed
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			if res.Header.Get("Content-Encoding") != "" {
				t.Errorf("the body is still encoded as %q", res.Header.Get("Content-Encoding"))
			}
			if res.ContentLength > 0 && res.ContentLength != int64(len(body)) {
				t.Errorf("%d bytes came of %d", len(body), res.ContentLength)
			}
			var entries []quota.Entry
			if err := s.service.Walk(t.Context(), "youtube", time.Time{}, func(e quota.Entry) bool { entries = append(entries, e); return true }); err != nil {
				t.Fatal(err)
			}
			for what, text := range map[string]string{
				"client": fmt.Sprint(err, res.Status, early, res.Header, string(body), res.Trailer), "exchange": fmt.Sprintf("%+v", s.settled(1)), "observation": told.String(),
				"ledger": fmt.Sprintf("%+v", entries), "log of errors": complained.String(),
			} {
				if strings.Contains(strings.ToLower(text), strings.ToLower(realKey)) {
					t.Errorf("%s: %s", what, text)
				}
			}
			if s.used() != 1 {
				t.Errorf("%d units are debited, want 1", s.used())
			}
		})
	}
}

// What is not found, as PROXY.md says: a key that is encoded as a whole.
func TestKeyThatIsNotFound(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte(realKey))
	s := newScene(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, encoded) }, nil)
	if a := s.get("youtube/v3/videos"); a.body != encoded {
		t.Errorf("answered %s", a.body)
	}
}

// An error is kept as it is, unless its text holds the key.
func TestErrorWithoutKey(t *testing.T) {
	if err := secret(realKey).redactError(io.ErrUnexpectedEOF); err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
	if err := secret(realKey).redactError(errors.New("<" + realKey + ">")); err.Error() != "<"+strings.Repeat("*", len(realKey))+">" {
		t.Error(err)
	}
}
