package server_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// The proxy alone knows whether its call was sent. What a pass settles and observes is in its record.
func TestThePassMayNotSettleForTheProxy(t *testing.T) {
	h := servertest.Start(t, nil)
	h.Tokens.Issue("secret", "trending", "US", "youtube")
	proxied, err := server.AcquireByToken(context.Background(), h.Service, h.Tokens, "secret", quota.Request{
		Credential: "youtube", Operation: "search.list", Count: 1, Proxied: true, Caller: h.Tokens.Pass("secret").Bearer.Caller,
	})
	servertest.Must(t, err)
	d, err := h.Client("secret").Settle(context.Background(), proxied.GrantID, 0)
	if p := api.ProblemFrom(err); p.Reason != quota.Forbidden || h.Used("youtube") != 100 {
		t.Errorf("got %+v, %v, used %d, want it forbidden", d, err, h.Used("youtube"))
	}
	own := h.Acquire("secret", api.AcquireRequest{Operation: "search.list"}).GrantID
	_, err = h.Client("secret").Settle(t.Context(), own, 30)
	if got := h.Tokens.Pass("secret").Settled; err != nil || len(got) != 1 || got[0] != own+"=30" {
		t.Errorf("the pass's record has %q, %v", got, err)
	}
	_, err = h.Client("secret").Observe(t.Context(), api.Observation{GrantID: own, Status: http.StatusTooManyRequests})
	if got := h.Tokens.Pass("secret").Observed; err != nil || len(got) != 1 || got[0] != "search" {
		t.Errorf("the pass's record has %q closed, %v", got, err)
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
