package server_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

func TestSettleAndRelease(t *testing.T) {
	h := servertest.Start(t, nil)
	h.Tokens.Issue("secret", "trending", "US", "youtube")
	client := h.Client("secret")
	grant := h.Acquire("secret", api.AcquireRequest{Operation: "search.list"})

	d, err := client.Settle(context.Background(), grant.GrantID, 30)
	if err != nil || !d.Granted || d.Units != 30 || d.GrantID != grant.GrantID {
		t.Fatalf("settle: %+v, %v", d, err)
	}
	if used := h.Used("youtube"); used != 30 {
		t.Errorf("used %d after settling to 30", used)
	}
	if d, err = client.Release(context.Background(), grant.GrantID); err != nil || !d.Granted {
		t.Fatalf("release: %+v, %v", d, err)
	}
	if used := h.Used("youtube"); used != 0 {
		t.Errorf("used %d after the release", used)
	}
	want := []string{grant.GrantID + "=30", grant.GrantID + "=0"}
	if got := h.Tokens.Pass("secret").Settled; !slices.Equal(got, want) {
		t.Errorf("the pass's record has %v, want %v", got, want)
	}
}

// A pass settles a grant to what one call of it could cost, and no further. An operator settles it to what was spent.
func TestASettlementIsBounded(t *testing.T) {
	h := servertest.Start(t, func(c *server.Config) { c.AdminGroup = servertest.OwnGroup(t) })
	h.Tokens.Issue("ordinary", "trending", "US", "youtube")
	h.Tokens.Issue("reserve", "nightly", "US", "youtube")
	h.Tokens.May("reserve", true)
	for _, row := range []struct {
		token   string
		most    int64 // 9,500 of daily, and the reserve
		further bool
	}{{"ordinary", 9_500, false}, {"reserve", 10_000, false}, {"", 10_000, true}} {
		grant := h.Acquire(row.token, api.AcquireRequest{Credential: "youtube", Operation: "videos.list"})
		client := h.Client(row.token)
		_, err := client.Settle(t.Context(), grant.GrantID, row.most+1)
		if (err == nil) != row.further || err != nil && api.ProblemFrom(err).Status != http.StatusConflict {
			t.Errorf("%q settles to %d: %v", row.token, row.most+1, err)
		}
		if d, err := client.Settle(t.Context(), grant.GrantID, row.most); err != nil || d.Units != row.most {
			t.Errorf("%q settles to %d: got %+v, %v", row.token, row.most, d, err)
		}
		if _, err := client.Release(t.Context(), grant.GrantID); err != nil {
			t.Error(err)
		}
	}
}

// The proxy alone knows whether its call was sent.
func TestThePassMayNotSettleForTheProxy(t *testing.T) {
	h := servertest.Start(t, nil)
	h.Tokens.Issue("secret", "trending", "US", "youtube")
	proxied, err := server.AcquireByToken(context.Background(), h.Service, h.Tokens, "secret", quota.Request{
		Credential: "youtube", Operation: "search.list", Count: 1, Proxied: true, Caller: h.Tokens.Pass("secret").Bearer.Caller,
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := h.Client("secret").Settle(context.Background(), proxied.GrantID, 0)
	if p := api.ProblemFrom(err); p.Reason != quota.Forbidden || h.Used("youtube") != 100 {
		t.Errorf("got %+v, %v, used %d, want it forbidden", d, err, h.Used("youtube"))
	}
}

// A deadlineLedger records until when its calls may take.
type deadlineLedger struct {
	*ledgertest.Model
	until []time.Time
}

func (l *deadlineLedger) note(ctx context.Context) {
	end, _ := ctx.Deadline()
	l.until = append(l.until, end)
}

func (l *deadlineLedger) Entry(ctx context.Context, c *quota.Credential, id quota.ID) (quota.Entry, bool, error) {
	l.note(ctx)
	return l.Model.Entry(ctx, c, id)
}

func (l *deadlineLedger) Settle(ctx context.Context, c *quota.Credential, s quota.Settlement) (quota.Decision, error) {
	l.note(ctx)
	return l.Model.Settle(ctx, c, s)
}

// Outside a pass, quotad looks up whose a grant is before it settles it. The caller waits for one deadline all the same.
func TestASettlementHasOneDeadline(t *testing.T) {
	uid := account(t, "nobody")
	ledger := &deadlineLedger{Model: ledgertest.NewModel(time.Now)}
	h := servertest.Start(t, func(c *server.Config) { c.Service = servertest.NewService(t, ledger, servertest.YouTube()) })
	grant := as(t, h, uid, "POST", "/v1/acquire", "credential=youtube&operation=search.list").Text("grant_id")
	if got := as(t, h, uid, http.MethodPost, "/v1/grants/"+grant+"/settle", "units=5"); got.Status != http.StatusOK {
		t.Errorf("the settlement is answered %d", got.Status)
	}
	if until := ledger.until; len(until) != 2 || until[0].IsZero() || !until[0].Equal(until[1]) {
		t.Errorf("the calls of the ledger may take until %v", until)
	}
}
