package server

import (
	"fmt"
	"quotad/quota/api"
	"time"
)

// A since is an instant as a query names it: by RFC 3339, or by how long ago it
// was. The zero value names none.
type since struct {
	at  time.Time
	ago time.Duration
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *since) UnmarshalText(text []byte) error {
	if at, err := time.Parse(time.RFC3339, string(text)); err == nil {
		*s = since{at: at}
		return nil
	}
	ago, err := api.ParseSpan(string(text))
	if err != nil || ago <= 0 {
		return fmt.Errorf("since must be an instant like 2026-03-14T09:00:00Z, or how long ago it was, like 90m, 24h or 7d: %.40q", text)
	}
	*s = since{ago: ago}
	return nil
}

func (s since) isZero() bool { return s == since{} }

// instant returns the instant when the ledger's clock shows now.
func (s since) instant(now time.Time) time.Time {
	if s.ago != 0 {
		return now.Add(-s.ago)
	}
	return s.at
}
