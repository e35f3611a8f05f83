package clientlimit

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"hash"
	"time"

	"quotad/quota"
)

// A Salt is the secret that hashes the subjects of a group in one period, and in the period before. It
// keeps the secret of the period before: each secret is a hash of the one before it, from which you cannot
// compute an older one.
type Salt struct {
	LengthMs int64  // of a period
	Period   int64  // its number: the time since 1970, divided by the length
	Before   []byte // the secret of the period before
}

const (
	saltSize = 32
	// leastPeriod is how long a period is at least: a UTC day.
	leastPeriod = 24 * time.Hour
)

// At returns the salt of the clients for a time of the ledger's clock, from an earlier one: the next
// one, or one that is drawn if that one is missing or of another time. A clock that steps back by less
// than a period leaves it as it is.
func (s Salt) At(c *Clients, clockMs int64) Salt {
	length := max(leastPeriod, c.counts()).Milliseconds()
	period := clockMs / length
	switch {
	case s.LengthMs == length && len(s.Before) == saltSize && (s.Period == period || s.Period == period+1):
		return s
	case s.LengthMs == length && len(s.Before) == saltSize && s.Period == period-1:
		return Salt{length, period, s.present()}
	}
	drawn := make([]byte, saltSize)
	rand.Read(drawn)
	return Salt{length, period, drawn}
}

// present is the secret of the period itself.
func (s Salt) present() []byte {
	keyed := hmac.New(sha256.New, s.Before)
	keyed.Write([]byte("next"))
	return keyed.Sum(nil)
}

// endsMs is when nothing that the salt has hashed counts any more.
func (s Salt) endsMs() int64 { return (s.Period + 2) * s.LengthMs }

// keyed are the hashes of a salt. To set them up costs more than to use them, which one goroutine at a time may.
type keyed struct {
	Salt
	now, before hash.Hash // of the period, and of the one before; nil: of no salt yet
}

// by returns the hashes of a salt: these, if they are.
func (k *keyed) by(s Salt) *keyed {
	if k.now == nil || k.Period != s.Period || k.LengthMs != s.LengthMs || !bytes.Equal(k.Before, s.Before) {
		*k = keyed{s, hmac.New(sha256.New, s.present()), hmac.New(sha256.New, s.Before)}
	}
	return k
}

// Ask returns what a subject asks for, an address, a network, a user or a key of any bytes.
func (c *Clients) Ask(s Salt, of string, units quota.Units) Ask {
	return c.asks(new(keyed).by(s), []priced{{subject: subjectOf(of), units: units}})[0]
}

// asks returns what subjects ask for.
func (c *Clients) asks(k *keyed, all []priced) []Ask {
	group, begins, counts := c.group(), k.Period*k.LengthMs, c.counts().Milliseconds()
	asks := make([]Ask, len(all))
	for i, one := range all {
		a := &asks[i]
		a.Subject, a.Units = one.subject.key(k.now, group, c.Plain), one.units
		if !a.Subject.isPlain() {
			a.Period = Period{Before: one.subject.key(k.before, group, c.Plain), BeforeEndsMs: begins + counts, EndsMs: begins + k.LengthMs}
		}
	}
	return asks
}
