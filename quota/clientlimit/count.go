package clientlimit

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"quotad/quota"
)

// A Store counts what subjects use, by its own clock: in Redis, or in memory. Any number of goroutines may use it.
type Store interface {
	// Count decides about units of one subject, and counts them if they fit every limit. An error is a
	// quota.ErrUnavailable if nothing was counted, and a quota.ErrOutcomeUnknown if it may have been.
	Count(ctx context.Context, c Call) (Count, error)
	// Forget deletes what a subject has used.
	Forget(ctx context.Context, c Call) error
	// Secret returns the secret that the users of the store share: ours, if they have none yet.
	Secret(ctx context.Context, ours string) (string, error)
}

// A Call asks a store for units of one subject.
type Call struct {
	Clients *Clients // with the shortest window first
	Key     Key
	Units   quota.Units // 0: it only looks
}

// windowMs is how a store has a limit's window.
func windowMs(l quota.Limit) int64 { return l.Window.Length.Milliseconds() }

// A Count is what a store says of a Call.
type Count struct {
	NowMs   int64
	Granted bool
	Limits  []Use // in the order of the call
}

// A Use is what a limit counts of a subject. Times are 0 if there is none.
type Use struct {
	Used      quota.Units // with those that are granted
	NextMs    int64       // when some of them leave
	NextUnits quota.Units // how many
	FitsMs    int64       // when the units of a denied call fit this limit
}

// LeastSecret is how many bytes a secret has at least.
const LeastSecret = 16

// A Key is the name of a subject in a store.
type Key [16]byte

func (k Key) String() string { return hex.EncodeToString(k[:]) }

// MarshalText and UnmarshalText are for Memory.Save and Load.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

func (k *Key) UnmarshalText(text []byte) error {
	all, err := hex.DecodeString(string(text))
	copy(k[:], all)
	return err
}

// keyOf returns the key of a subject: a hash by a secret, so that a reader of the store learns no subject. An address
// or a network has one key in all its notations. With other windows, or another algorithm, a subject has another key.
func (g *Group) keyOf(secret, subject string) (k Key) {
	if address, err := netip.ParseAddr(subject); err == nil {
		subject = address.Unmap().String()
	} else if network, err := netip.ParsePrefix(subject); err == nil {
		subject = network.Masked().String()
	}
	keyed := hmac.New(sha256.New, []byte(secret))
	windows := make([]string, len(g.Limits))
	for i, limit := range g.Limits {
		windows[i] = strconv.FormatInt(windowMs(limit), 10)
	}
	io.WriteString(keyed, strings.Join([]string{g.Name, string(g.Algorithm), strings.Join(windows, ","), subject}, "\x00"))
	copy(k[:], keyed.Sum(nil))
	return k
}

// decision returns what a count means for a call of that many units.
func (c *Clients) decision(n Count, units quota.Units) quota.Decision {
	now, d := timeOf(n.NowMs), quota.Decision{Units: units}
	for i, limit := range c.Limits {
		at := timeOf(n.Limits[i].FitsMs)
		if !n.Granted && !limit.DryRun && units > limit.Units {
			d = quota.NeverFits(units, limit.Name, limit.Units)
			break
		}
		if at.After(d.RetryAt) {
			d.Reason, d.Limit, d.RetryAt, d.RetryAfter = quota.LimitExceeded, limit.Name, at, at.Sub(now)
		}
	}
	if n.Granted {
		units = 0
	}
	d.Now, d.Limits = now, c.states(n, units)
	return d.Detailed(false)
}

// states returns the state of each limit, and what a call that was denied costs there.
func (c *Clients) states(n Count, cost quota.Units) []quota.LimitState {
	states := make([]quota.LimitState, len(c.Limits))
	for i, use := range n.Limits {
		next := timeOf(use.NextMs)
		states[i] = quota.LimitState{Limit: c.Limits[i], Used: use.Used, Cost: cost, NextAt: next, NextUnits: use.NextUnits}
	}
	return states
}

func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
