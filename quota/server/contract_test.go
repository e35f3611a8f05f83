package server_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

var update = flag.Bool("update", false, "write the answers in testdata/contract.txt anew")

// TestContract holds what every kind of request is answered: status, content type and reason, and what a refusal says.
// Programs that people wrote rely on it, so an answer in testdata/contract.txt changes for a reason only. A refusal
// moves nothing, and the connection stays usable.
//
// A paragraph is a request and its answer: its name; the request's method and path, and words for what it has besides;
// further fields; after >>, the body, perhaps quoted. Requests before the last one, "wait 90s" and "away ledgers" prepare
// it. The words: form and json are the content type; mine, nightly (which may use the reserve), brief and lasting are the
// run token; member and job are users, of whom the second one is a job's and in the admin group; whole shows all of the
// answer. In the path SEARCH is the grant of a search outside any pass, and OWN one of the pass with the token mine.
// ${x 9} is nine times x.
func TestContract(t *testing.T) {
	const file = "testdata/contract.txt"
	read, err := os.ReadFile(file)
	servertest.Must(t, err)
	var written []string
	var h *contractScene // until an answer moves something
	for paragraph := range strings.SplitSeq(strings.TrimSpace(string(read)), "\n\n") {
		lines := strings.Split(paragraph, "\n")
		n := 1 + slices.IndexFunc(append(lines[1:], ""), func(line string) bool { return !strings.HasPrefix(line, ">") })
		requests := parseRequests(t, lines[1:n])
		last := requests[len(requests)-1]
		if os.Getuid() != 0 && last.user != "" {
			written = append(written, paragraph)
			continue // only root can call as other users
		}
		if h == nil {
			h = newContractScene(t)
		}
		for _, before := range requests[:len(requests)-1] {
			h.send(before)
		}
		before := h.spent()
		answer := h.send(last)
		got, want := describe(answer, last.whole), strings.Join(lines[n:], "\n")
		if written = append(written, strings.Join(lines[:n], "\n")+"\n"+got); got != want && !*update {
			t.Errorf("%s\n got %s\nwant %s", lines[0], got, want)
		}
		if now := h.spent(); answer.Status >= 400 && now != before {
			t.Errorf("%s: a refusal moved %s units to %s", lines[0], before, now)
		}
		if next := h.wires[last.user].Call("GET", "/healthz", ""); next.Status != 200 {
			t.Errorf("%s: the next request of the connection: %d", lines[0], next.Status)
		}
		if answer.Status < 400 && last.method != "GET" || len(requests) > 1 {
			h = nil
		}
	}
	if *update {
		servertest.Must(t, os.WriteFile(file, []byte(strings.Join(written, "\n\n")+"\n\n"), 0o644))
	}
}

// A contractScene is what the contract is held on.
type contractScene struct {
	*clientScene
	wrapped *struct{ quota.Ledger }
	wires   map[string]*servertest.Conn // by user
	inPaths *strings.Replacer
}

func newContractScene(t *testing.T) *contractScene {
	t.Helper()
	h := &contractScene{wires: map[string]*servertest.Conn{}}
	h.clientScene = clientsServed(t, func(c *server.Config) {
		if c.AdminGroup = servertest.OwnGroup(t); os.Getuid() == 0 {
			c.AdminGroup, c.JobsUID = "bin", int(account(t, "bin"))
		}
		h.wrapped = &struct{ quota.Ledger }{ledgertest.NewModel(func() time.Time { return h.Clock.Now() })}
		c.Service = servertest.NewService(t, h.wrapped, servertest.YouTube(), servertest.Other())
		c.Status = map[string]func(context.Context) any{"jobs": func(context.Context) any { return []string{"trending"} }}
		echo := func(_ context.Context, _ *server.Session, in struct {
			Regions []string `json:"regions"`
		}) (any, error) {
			return in, nil
		}
		c.Routes = []server.Route{{Method: "POST", Path: "/v1/echo", Access: server.Read, Handle: server.Handle(echo)}}
	})
	for token, credential := range map[string]string{
		"mine": "youtube", "theirs": "youtube", "dead": "youtube", "nightly": "youtube", "brief": "other", "lasting": "other",
	} {
		h.Tokens.Issue(token, "trending", "US", credential)
	}
	h.Tokens.Revoke("dead")
	h.Tokens.May("nightly", true)
	h.Tokens.Ends("brief", h.Clock.Now().Add(time.Minute-time.Millisecond), 0)
	h.Tokens.Ends("lasting", h.Clock.Now().Add(time.Minute), 0)
	acquire := func(body string, headers ...string) string {
		return h.send(contractRequest{"POST", "/v1/acquire", body, append(headers, servertest.JSON), "", false}).Text("grant_id")
	}
	h.inPaths = strings.NewReplacer()
	search := acquire(`{"credential":"youtube","operation":"search.list","request_id":"first"}`)
	own := acquire(`{"operation":"videos.list","request_id":"own"}`, "Authorization: Bearer mine")
	acquire(`{"credential":"other","operation":"get","count":2}`)
	h.inPaths = strings.NewReplacer("SEARCH", search, "OWN", own)
	return h
}

// spent is what was debited of a credential, and to a client.
func (h *contractScene) spent() string {
	h.T.Helper()
	if h.wrapped.Ledger == (lostLedger{}) {
		return "nobody knows"
	}
	alice, _, err := h.service.Usage(h.T.Context(), "public", "alice")
	servertest.Must(h.T, err)
	return fmt.Sprint(h.Used("youtube"), " and ", alice.Limits[0].Used)
}

// send makes a request on the connection of its user.
func (h *contractScene) send(r contractRequest) servertest.Response {
	h.T.Helper()
	if wait, err := time.ParseDuration(r.path); err == nil {
		h.Clock.Add(wait)
		return servertest.Response{}
	}
	if r.method == "away" {
		h.ledger.Fail(quota.ErrUnavailable)
		h.wrapped.Ledger = lostLedger{}
		return servertest.Response{}
	}
	wire := h.wires[r.user]
	if wire == nil {
		if wire = h.Dial(); r.user != "" {
			wire = dialAs(h.T, h.Server, account(h.T, map[string]string{"member": "nobody", "job": "bin"}[r.user]))
		}
		h.wires[r.user] = wire
	}
	send := wire.Call
	if slices.Contains(r.headers, "Transfer-Encoding: chunked") {
		send = wire.Raw
	}
	return send(r.method, h.inPaths.Replace(r.path), h.inPaths.Replace(r.body), r.headers...)
}

// A lostLedger was flushed.
type lostLedger struct{ quota.Ledger }

var errLost = fmt.Errorf("%w: it was flushed", quota.ErrLost)

func (lostLedger) Acquire(context.Context, *quota.Credential, quota.Ask) (quota.Decision, error) {
	return quota.Decision{}, errLost
}

func (lostLedger) Peek(context.Context, *quota.Credential, []string, []quota.Charge, bool) (quota.Decision, error) {
	return quota.Decision{}, errLost
}

func (lostLedger) Settle(context.Context, *quota.Credential, quota.Settlement) (quota.Decision, error) {
	return quota.Decision{}, errLost
}

func (lostLedger) Book(context.Context, *quota.Credential, quota.Booking) (quota.Decision, error) {
	return quota.Decision{}, errLost
}

func (lostLedger) Reset(context.Context, *quota.Credential, quota.Caller, string) error {
	return errLost
}

func (lostLedger) Usage(context.Context, *quota.Credential) (quota.Usage, error) {
	return quota.Usage{}, errLost
}

func (lostLedger) Log(context.Context, *quota.Credential, quota.LogQuery) (quota.LogPage, error) {
	return quota.LogPage{}, errLost
}

func (lostLedger) Health(context.Context) quota.Health {
	return quota.Health{Backend: "redis", State: "unreachable"}
}

// A contractRequest is one of a paragraph; one whose path is a time waits for so long.
type contractRequest struct {
	method, path, body string
	headers            []string
	user               string // empty: who runs the test
	whole              bool
}

var (
	repeated = regexp.MustCompile(`\$\{(\S+) (\d+)\}`)
	begins   = regexp.MustCompile(`^> ([A-Z]+|wait|away) \S+`)
	drawn    = regexp.MustCompile(`(youtube:|other:|"hash":")[0-9A-Za-z]{16,32}`) // at random
)

// parseRequests reads the lines of requests.
func parseRequests(t *testing.T, lines []string) (list []contractRequest) {
	t.Helper()
	expand := func(text string) string {
		return repeated.ReplaceAllStringFunc(text, func(one string) string {
			parts := repeated.FindStringSubmatch(one)
			n, _ := strconv.Atoi(parts[2])
			return strings.Repeat(parts[1], n)
		})
	}
	for _, line := range lines {
		if begins.MatchString(line) {
			list = append(list, newContractRequest(expand(strings.TrimPrefix(line, "> "))))
			continue
		}
		r := &list[len(list)-1]
		text, isBody := strings.CutPrefix(line, ">> ")
		switch {
		case !isBody:
			r.headers = append(r.headers, strings.TrimPrefix(line, "> "))
		case strings.HasPrefix(text, `"`):
			quoted, err := strconv.Unquote(text)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			r.body = expand(quoted)
		default:
			r.body = expand(text)
		}
	}
	return list
}

// newContractRequest reads the first line of a request.
func newContractRequest(line string) (r contractRequest) {
	words := strings.Split(line, " ")
	for ; len(words) > 2; words = words[:len(words)-1] {
		switch word := words[len(words)-1]; word {
		case "form":
			r.headers = append(r.headers, servertest.Form)
		case "json":
			r.headers = append(r.headers, servertest.JSON)
		case "mine", "nightly", "brief", "lasting":
			r.headers = append(r.headers, "Authorization: Bearer "+word)
		case "member", "job":
			r.user = word
		case "whole":
			r.whole = true
		default:
			r.method, r.path = words[0], strings.Join(words[1:], " ")
			return r
		}
	}
	r.method, r.path = words[0], words[1]
	return r
}

// describe returns an answer in a line, and below it what a problem says, or all of it.
func describe(answer servertest.Response, whole bool) string {
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
	if whole {
		for _, header := range []string{"RateLimit-Policy", "RateLimit", "Quotad-Mode"} {
			if value := answer.Header.Get(header); value != "" {
				says += fmt.Sprintf("\n    %s: %s", header, value)
			}
		}
		body := drawn.ReplaceAllString(strings.TrimSpace(answer.Body), "${1}ID")
		return says + "\n    " + strings.ReplaceAll(body, fmt.Sprintf(`"@%d"`, os.Getuid()), `"@UID"`)
	}
	if answer.Status >= 400 && answer.Fields != nil {
		for _, member := range []string{"status", "granted", "retry_at"} {
			if value := text(member); value != "" && value != fmt.Sprint(answer.Status) {
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
