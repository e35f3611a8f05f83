package servertest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"quotad/quota"
)

// Tokens keeps the record of passes as a scheduler would. The zero value has none.
type Tokens struct {
	mu     sync.Mutex // guards what follows
	passes map[string]*Pass
}

// A Pass holds a token.
type Pass struct {
	Bearer    quota.Bearer
	Requests  []quota.Request
	Decisions []quota.Decision // on each of them
	Settled   []string         // "grant=units"
	Observed  []string         // limits that the upstream called exhausted
	Refused   []string         // why calls were not made
}

// Issue makes a token that of a pass.
func (t *Tokens) Issue(token, job, region, credential string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.passes == nil {
		t.passes = make(map[string]*Pass)
	}
	t.passes[token] = &Pass{
		Bearer: quota.Bearer{Caller: quota.Caller{Job: job, Region: region, Run: job + "-1"}, Credential: credential},
	}
}

// Revoke ends a token.
func (t *Tokens) Revoke(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.passes, token)
}

// Pass returns the pass of a live token as it is now.
func (t *Tokens) Pass(token string) (now Pass) {
	t.of(token, func(p *Pass) { now = *p })
	return now
}

// of calls do with the pass of a live token.
func (t *Tokens) of(token string, do func(*Pass)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do(t.passes[token])
}

// May changes how a pass may spend.
func (t *Tokens) May(token string, useReserve bool) {
	t.of(token, func(p *Pass) { p.Bearer.UseReserve = useReserve })
}

// Ends sets when a pass is ended, and how long a run of its job waits for a limit.
func (t *Tokens) Ends(token string, deadline time.Time, maxWait time.Duration) {
	t.of(token, func(p *Pass) { p.Bearer.Deadline, p.Bearer.MaxWait = deadline, maxWait })
}

// Bearer implements server.Tokens.
func (t *Tokens) Bearer(token string) (b quota.Bearer, live bool) {
	t.of(token, func(p *Pass) {
		if live = p != nil; live {
			b = p.Bearer
		}
	})
	return b, live
}

// Decided implements server.Tokens.
func (t *Tokens) Decided(token string, r quota.Request, d quota.Decision, err error) {
	t.of(token, func(p *Pass) {
		if err == nil {
			p.Requests, p.Decisions = append(p.Requests, r), append(p.Decisions, d)
		}
	})
}

// Owns implements server.Tokens.
func (t *Tokens) Owns(token, grantID string) bool {
	p := t.Pass(token)
	i := slices.IndexFunc(p.Decisions, func(d quota.Decision) bool { return d.GrantID == grantID })
	return i >= 0 && !p.Requests[i].Proxied
}

// Settled implements server.Tokens.
func (t *Tokens) Settled(token, grantID string, units quota.Units, _ []quota.LimitState) (past string) {
	t.of(token, func(p *Pass) { p.Settled = append(p.Settled, fmt.Sprintf("%s=%d", grantID, units)) })
	return ""
}

// Observed implements server.Tokens.
func (t *Tokens) Observed(token string, word quota.Word) {
	if word.Limit != "" {
		t.of(token, func(p *Pass) { p.Observed = append(p.Observed, word.Limit) })
	}
}

// Refused implements server.Tokens.
func (t *Tokens) Refused(token, why string) {
	t.of(token, func(p *Pass) { p.Refused = append(p.Refused, why) })
}
