package jobs

import (
	"crypto/rand"
	"crypto/sha256"
	"maps"
	"sync"
	"time"

	"quotad/quota"
)

// Tokens knows the run tokens of the passes under way: who may spend as whom,
// and what each was granted and denied. A token is known from Issue to Revoke;
// of others nothing is known, and nothing is recorded. The zero value is ready
// to use, by any number of goroutines.
type Tokens struct {
	mu      sync.Mutex         // guards what follows, and what holders point to
	holders map[digest]*holder // by the token's hash: how long a look-up takes tells nothing about a token
}

type digest = [sha256.Size]byte

// A holder is the pass that a token was issued to.
type holder struct {
	caller     quota.Caller
	credential string
	record     Record
	made       map[string]quota.Units // calls that were granted, by operation
	grants     map[string]quota.Units // by grant id, as it stands after settling
}

// A Record sums up what a pass was granted and denied.
type Record struct {
	Denied  bool        // for want of budget; not for a request that could never be granted
	Limit   string      // that refused last
	RetryAt time.Time   // when what was refused last would have been granted
	Units   quota.Units // debited, less what was given back
	Calls   int64       // acquires that were granted
}

// Issue returns a new token for the pass that is caller and spends from
// credential. It has more than 128 random bits.
func (t *Tokens) Issue(caller quota.Caller, credential string) string {
	token := rand.Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holders == nil {
		t.holders = make(map[digest]*holder)
	}
	t.holders[hash(token)] = &holder{caller: caller, credential: credential, grants: make(map[string]quota.Units), made: make(map[string]quota.Units)}
	return token
}

// Revoke makes a token unknown, and returns what its pass was granted and denied.
func (t *Tokens) Revoke(token string) Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := hash(token)
	h := t.holders[key]
	if h == nil {
		return Record{}
	}
	delete(t.holders, key)
	return h.record
}

// Holder returns the pass that a token was issued to, and the only credential
// that it may spend from.
func (t *Tokens) Holder(token string) (caller quota.Caller, credential string, live bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.holders[hash(token)]
	if h == nil {
		return quota.Caller{}, "", false
	}
	return h.caller, h.credential, true
}

// Decided records what was decided about a request of the token's pass.
func (t *Tokens) Decided(token string, r quota.Request, d quota.Decision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.holders[hash(token)]; h != nil {
		h.decided(r, d)
	}
}

func (h *holder) decided(r quota.Request, d quota.Decision) {
	if d.Reason == quota.LimitExceeded {
		h.record.Denied, h.record.Limit, h.record.RetryAt = true, d.Limit, d.RetryAt
	}
	if _, known := h.grants[d.GrantID]; known || !d.Granted() {
		return // a replay of what was counted, or nothing to count
	}
	h.grants[d.GrantID] = d.Units
	h.made[r.Operation] += r.Count
	h.record.Units += d.Units
	h.record.Calls++
}

// Made returns how many calls of each operation the token's pass was granted.
func (t *Tokens) Made(token string) map[string]quota.Units {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.holders[hash(token)]
	if h == nil {
		return nil
	}
	return maps.Clone(h.made)
}

// Owns tells whether the token's pass was given that grant, which it alone may
// settle.
func (t *Tokens) Owns(token, grantID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.holders[hash(token)]
	if h == nil {
		return false
	}
	_, own := h.grants[grantID]
	return own
}

// Settled records that the token's pass set a grant of its own to what it
// really cost.
func (t *Tokens) Settled(token, grantID string, units quota.Units) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.holders[hash(token)]
	if h == nil {
		return
	}
	if before, own := h.grants[grantID]; own {
		h.record.Units += units - before
		h.grants[grantID] = units
	}
}

func hash(token string) digest { return sha256.Sum256([]byte(token)) }
