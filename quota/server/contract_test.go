package server_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

var update = flag.Bool("update", false, "write the answers in testdata/contract.txt anew")

// TestContract holds what every kind of request is answered: status, content type and reason, and what a refusal says.
// Programs that people wrote rely on it, so an answer in testdata/contract.txt changes for a reason only. A refusal
// moves nothing, and the connection stays usable.
//
// A paragraph is a request and its answer: its name; the request's method and path, with form, json or mine for the
// content type, or the run token "mine"; further fields; after >>, the body, perhaps quoted. In the path SEARCH is the
// grant of a search outside any pass, and OWN one of the pass with that token. ${x 9} is nine times x.
func TestContract(t *testing.T) {
	const file = "testdata/contract.txt"
	read, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	var h *clientScene // until an answer moves something
	var wire *servertest.Conn
	var search, own servertest.Response
	for paragraph := range strings.SplitSeq(strings.TrimSpace(string(read)), "\n\n") {
		lines := strings.Split(paragraph, "\n")
		n := 1
		for n < len(lines) && strings.HasPrefix(lines[n], ">") {
			n++
		}
		if h == nil {
			h = clientsServed(t, func(c *server.Config) { c.AdminGroup = servertest.OwnGroup(t) })
			h.Tokens.Issue("mine", "trending", "US", "youtube")
			h.Tokens.Issue("theirs", "charts", "DE", "youtube")
			h.Tokens.Issue("dead", "trending", "US", "youtube")
			h.Tokens.Revoke("dead")
			wire = h.Dial()
			acquire := func(body string, headers ...string) servertest.Response {
				return wire.Call("POST", "/v1/acquire", body, append(headers, servertest.JSON)...)
			}
			search = acquire(`{"credential":"youtube","operation":"search.list","request_id":"first"}`)
			own = acquire(`{"operation":"videos.list","request_id":"own"}`, "Authorization: Bearer mine")
			acquire(`{"credential":"other","operation":"get","count":2}`)
		}
		spent := func() string {
			alice, _, err := h.service.Usage(t.Context(), "public", "alice")
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(h.Used("youtube"), " and ", alice.Limits[0].Used)
		}
		method, path, body, headers := parseRequest(t, lines[1:n])
		path = strings.NewReplacer("SEARCH", search.Text("grant_id"), "OWN", own.Text("grant_id")).Replace(path)
		before := spent()
		answer := wire.Call(method, path, body, headers...)
		got, want := describe(answer), strings.Join(lines[n:], "\n")
		if written = append(written, strings.Join(lines[:n], "\n")+"\n"+got); got != want && !*update {
			t.Errorf("%s\n got %s\nwant %s", lines[0], got, want)
		}
		if now := spent(); answer.Status >= 400 && now != before {
			t.Errorf("%s: a refusal moved %s units to %s", lines[0], before, now)
		}
		if server := answer.Header.Get("Server"); server != "quotad/v1.2.3" {
			t.Errorf("%s: Server: %s", lines[0], server)
		}
		if next := wire.Call("GET", "/healthz", ""); next.Status != 200 {
			t.Errorf("%s: the next request of the connection: %d", lines[0], next.Status)
		}
		if answer.Status < 400 && method != "GET" {
			h = nil
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(written, "\n\n")+"\n\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var repeated = regexp.MustCompile(`\$\{(\S+) (\d+)\}`)

// parseRequest reads the lines of a request.
func parseRequest(t *testing.T, lines []string) (method, path, body string, headers []string) {
	t.Helper()
	expand := func(text string) string {
		return repeated.ReplaceAllStringFunc(text, func(one string) string {
			parts := repeated.FindStringSubmatch(one)
			n, _ := strconv.Atoi(parts[2])
			return strings.Repeat(parts[1], n)
		})
	}
	named := map[string]string{"form": servertest.Form, "json": servertest.JSON, "mine": "Authorization: Bearer mine"}
	words := strings.Split(strings.TrimPrefix(lines[0], "> "), " ")
	for len(words) > 2 && named[words[len(words)-1]] != "" {
		headers = append(headers, named[words[len(words)-1]])
		words = words[:len(words)-1]
	}
	for _, line := range lines[1:] {
		text, isBody := strings.CutPrefix(line, ">> ")
		switch {
		case !isBody:
			headers = append(headers, strings.TrimPrefix(line, "> "))
		case strings.HasPrefix(text, `"`):
			quoted, err := strconv.Unquote(text)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			body = quoted
		default:
			body = text
		}
	}
	return words[0], expand(strings.Join(words[1:], " ")), expand(body), headers
}

// describe returns an answer in a line, and below it what a problem says.
func describe(answer servertest.Response) string {
	text := func(member string) string { // empty if it is absent
		if answer.Fields[member] == nil {
			return ""
		}
		return answer.Text(member)
	}
	says := fmt.Sprintf("%d %s %s", answer.Status, answer.Header.Get("Content-Type"), text("reason"))
	for _, header := range []string{"Allow", "Retry-After"} {
		if value := answer.Header.Get(header); value != "" {
			says += fmt.Sprintf(", %s: %s", header, value)
		}
	}
	if answer.Status >= 400 && answer.Fields != nil {
		for _, member := range []string{"status", "type", "granted", "retry_at"} {
			if value := text(member); value != "" && value != fmt.Sprint(answer.Status) && value != "about:blank" {
				says += fmt.Sprintf(", %s %s", member, value)
			}
		}
		for _, member := range []string{"detail", "hint"} {
			if value := text(member); value != "" {
				says += fmt.Sprintf("\n    %s: %s", member, value)
			}
		}
	}
	return says
}
