package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

func TestReads(t *testing.T) {
	h := servertest.Start(t, func(c *server.Config) {
		c.Status = map[string]func(context.Context) any{
			"jobs": func(context.Context) any { return []string{"trending"} },
		}
	})
	h.Acquire("", api.AcquireRequest{Credential: "youtube", Operation: "search.list"})

	status := h.Dial().Call("GET", "/v1/status", "")
	if status.Status != 200 || status.Text("version") != "v1.2.3" || status.Text("jobs") != "[trending]" {
		t.Errorf("status: %d %s", status.Status, status.Body)
	}
	var decoded api.Status
	if err := json.Unmarshal([]byte(status.Body), &decoded); err != nil {
		t.Fatal(err)
	}
	daily := decoded.Credentials[0].Limits[0]
	if daily.Used != 100 || daily.Remaining != 9400 || daily.NextUnits != 100 || !daily.NextUnitsAt.Equal(h.Clock.Now().Add(24*time.Hour)) {
		t.Errorf("limit %+v", daily)
	}
	if decoded.Ledger.State != "ok" || decoded.Ledger.Backend != "model" {
		t.Errorf("ledger %+v", decoded.Ledger)
	}
	if got := h.Dial().Call("GET", "/version", ""); got.Text("version") != "v1.2.3" {
		t.Errorf("version: %d %s", got.Status, got.Body)
	}
	if got := h.Dial().Call("HEAD", "/readyz", ""); got.Status != 200 || got.Body != "" {
		t.Errorf("readyz: %d %s", got.Status, got.Body)
	}
}

func TestRoutesOfOthers(t *testing.T) {
	h := servertest.Start(t, func(c *server.Config) {
		c.Routes = []server.Route{{Method: "GET", Path: "/v1/jobs/{job}", Access: server.Read, Does: "one job", Handle: server.Handle(job)}}
	})
	if got := h.Dial().Call("GET", "/v1/jobs/trending?regions=US&regions=GB", ""); got.Text("job") != "trending" || got.Text("regions") != "[US GB]" {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
	if got := h.Dial().Call("GET", "/v1/jobs/none", ""); got.Status != 404 || got.Text("reason") != "not_found" {
		t.Errorf("got %d %s, want 404", got.Status, got.Body)
	}
	if got := h.Dial().Call("GET", "/v1/jobs/broken", ""); got.Status != 500 || got.Text("reason") != "internal_error" {
		t.Errorf("got %d %s, want 500", got.Status, got.Body)
	}
	index := h.Dial().Call("GET", "/v1", "")
	for _, want := range []string{`"path":"/v1/acquire","access":"spend"`, `"path":"/v1/jobs/{job}","access":"read","does":"one job"`} {
		if !strings.Contains(index.Body, want) {
			t.Errorf("the list of routes lacks %s: %s", want, index.Body)
		}
	}
}

type jobQuery struct {
	Regions []string `json:"regions"`
}

func job(_ context.Context, c *server.Session, q jobQuery) (map[string]any, error) {
	switch name := c.Path("job"); name {
	case "none":
		return nil, api.NewProblem(api.NotFound, "job %q is not configured", name)
	case "broken":
		return nil, errors.New("it broke")
	default:
		return map[string]any{"job": name, "regions": q.Regions}, nil
	}
}

// A failing ledger answers everything with an error.
type failing struct {
	*ledgertest.Model
	err error
}

func (f failing) Acquire(context.Context, *quota.Credential, quota.Ask) (quota.Decision, error) {
	return quota.Decision{}, f.err
}

func (f failing) Peek(context.Context, *quota.Credential, []string, []quota.Charge, bool) (quota.Decision, error) {
	return quota.Decision{}, f.err
}

func (f failing) Settle(context.Context, *quota.Credential, quota.Settlement) (quota.Decision, error) {
	return quota.Decision{}, f.err
}

func (f failing) Book(context.Context, *quota.Credential, quota.Booking) (quota.Decision, error) {
	return quota.Decision{}, f.err
}

func (f failing) Reset(context.Context, *quota.Credential, quota.Caller, string) error {
	return f.err
}

func (f failing) Usage(context.Context, *quota.Credential) (quota.Usage, error) {
	return quota.Usage{}, f.err
}

func (f failing) Log(context.Context, *quota.Credential, quota.LogQuery) (quota.LogPage, error) {
	return quota.LogPage{}, f.err
}

func (f failing) Health(context.Context) quota.Health {
	return quota.Health{Backend: "redis", State: "unreachable"}
}

// Whatever keeps a ledger from answering is 503 with its reason on every route, and
// says when to come again, from the first answer on.
func TestLedgerUnavailable(t *testing.T) {
	for _, row := range []struct {
		name string
		why  error
		want string
	}{
		{"unreachable", fmt.Errorf("cannot reach it: %w", quota.ErrUnavailable), "ledger_unavailable"},
		{"unanswered", fmt.Errorf("cannot reach it: %w", quota.ErrOutcomeUnknown), "ledger_unavailable"},
		{"lost", fmt.Errorf("%w: it was flushed", quota.ErrLost), "recovering"},
		{"quiet", fmt.Errorf("%w: daemons put back what they know", quota.ErrRecovering), "recovering"},
	} {
		t.Run(row.name, func(t *testing.T) { testUnavailable(t, row.why, row.want) })
	}
}

func testUnavailable(t *testing.T, why error, reason string) {
	h := servertest.Start(t, func(c *server.Config) {
		c.Service = servertest.NewService(t, failing{ledgertest.NewModel(time.Now), why}, servertest.YouTube())
		c.AdminGroup = servertest.OwnGroup(t)
	})
	for _, row := range []struct{ method, path, body string }{
		{"POST", "/v1/acquire", "credential=youtube&operation=videos.list"},
		{"POST", "/v1/grants/youtube:ABCDEFGHIJKLMNOP/settle", "units=1"},
		{"DELETE", "/v1/grants/youtube:ABCDEFGHIJKLMNOP", ""},
		{"GET", "/v1/log?credential=youtube", ""},
		{"POST", "/v1/acquire", "credential=youtube&operation=videos.list&dry_run=true"},
		{"POST", "/v1/credentials/youtube/book", "limit=daily&units=1"},
		{"POST", "/v1/credentials/youtube/reset", "confirm=youtube"},
		{"GET", "/readyz", ""},
	} {
		got := h.Dial().Call(row.method, row.path, row.body, servertest.Form)
		want := reason
		if row.path == "/readyz" {
			want = "ledger_unavailable" // it says how the ledger is
		}
		if got.Status != 503 || got.Text("reason") != want || got.Header.Get("Retry-After") != "1" {
			t.Errorf("%s %s: %d, Retry-After %q, %s, want 503", row.method, row.path, got.Status, got.Header.Get("Retry-After"), got.Body)
		}
	}
	if got := h.Dial().Call("GET", "/healthz", ""); got.Status != 200 {
		t.Errorf("healthz: %d, want 200", got.Status)
	}
	status, err := h.Client("").Status(t.Context())
	if err != nil || status.Ledger.State != "unreachable" || status.Credentials[0].Error == "" {
		t.Errorf("status: %+v, %v", status, err)
	}
	_, err = h.Client("").Acquire(t.Context(), api.AcquireRequest{Credential: "youtube", Operation: "videos.list"})
	if !errors.Is(err, api.ErrLedgerUnavailable) || errors.Is(err, api.ErrUnreachable) {
		t.Errorf("the client says %v, want ErrLedgerUnavailable", err)
	}
}

// Each decision is reported with its caller, and the record of a pass has it.
func TestEveryDecisionIsReported(t *testing.T) {
	h := servertest.Start(t, nil)
	h.Tokens.Issue("secret", "fetch", "US", "other")
	first := api.AcquireRequest{Credential: "youtube", Operation: "videos.list", RequestID: "a", Optional: true}
	grant := h.Acquire("", first)
	h.Acquire("", api.AcquireRequest{Credential: "vimeo", Operation: "videos.list"})
	h.Client("").Release(t.Context(), grant.GrantID)
	for range 3 {
		h.Acquire("secret", api.AcquireRequest{Operation: "get"})
	}
	var got []string
	for _, e := range h.Events() {
		got = append(got, fmt.Sprint(e.Verb, " ", e.Request.Caller.By(), " ", e.Request.Caller.Region, " ", e.Result(), " ", e.PID == os.Getpid()))
	}
	own := fmt.Sprintf("@%d", os.Getuid())
	want := []string{"acquire " + own + "  granted true", "acquire " + own + "  unknown_credential true", "release " + own + "  granted true",
		"acquire fetch US granted true", "acquire fetch US granted true", "acquire fetch US limit_exceeded true"}
	request := h.Events()[0].Request
	if !slices.Equal(got, want) || request.RequestID != "a" || !request.Optional ||
		h.Events()[2].GrantID != grant.GrantID {
		t.Errorf("got %q, want %q", got, want)
	}
	if decided := h.Tokens.Pass("secret").Decisions; len(decided) != 3 || !decided[1].Granted() || decided[2].Reason != quota.LimitExceeded {
		t.Errorf("the record has %+v, want two grants and a denial", decided)
	}
}
