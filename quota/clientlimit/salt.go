package clientlimit

import (
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

// Ask returns what a subject asks for, an address, a network, a user or a key of any bytes.
func (c *Clients) Ask(s Salt, of string, units quota.Units) Ask {
	return c.asks(s, []priced{{subject: subjectOf(of), units: units}})[0]
}

// asks returns what subjects ask for. To set up a keyed hash costs more than to use it, so all asks share
// those of the salt.
func (c *Clients) asks(s Salt, all []priced) []Ask {
	group, begins := c.group(), s.Period*s.LengthMs
	present := hmac.New(sha256.New, s.present())
	var before hash.Hash
	asks := make([]Ask, len(all))
	for i, one := range all {
		a := &asks[i]
		a.Subject, a.Units = one.subject.key(present, group, c.Plain), one.units
		if a.Subject.isPlain() {
			continue
		}
		if before == nil {
			before = hmac.New(sha256.New, s.Before)
		}
		a.Period = Period{
			Before: one.subject.key(before, group, c.Plain), BeforeEndsMs: begins + c.counts().Milliseconds(),
			EndsMs: begins + s.LengthMs,
		}
	}
	return asks
}
