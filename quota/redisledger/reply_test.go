package redisledger

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quotad/quota"
)

// FuzzReply reads replies that no script of ours gives: another Redis, another
// version, a proxy may. None is taken for a decision that it is not.
func FuzzReply(f *testing.F) {
	for _, reply := range []string{
		`["done", 1795260896123, "epoch", "1795260896123-0", "granted", "1795260896123-0", 0, 100, 1]`,
		`["done", 1795260896123, "epoch", "1795260896123-0", "denied", 2, 1795260896124, 9500, 1]`,
		`["done", 1795260896123, "epoch", "1795260896123-0", "denied", 1, 0, 9500, 1]`,
		`["done", 1795260896123, "epoch", "1795260896123-0", "conflict", "videos.list", "3", 0, 0]`,
		`["done", 1795260896123, "epoch", "0-0", "100", 0, 1795260896123, "4", 1, 0, 0, 0]`,
		`["more", 1795260896123, "", "0-0"]`,
		`["1795260896123-0", ["o", "videos.list", "n", "2", "b", "@1000", "r", "US", "u", "daily=2 search=1", "a", "1795260896124"], "1"]`,
		`[null, [], -1, 1.5, true, [["o"]], "granted"]`,
	} {
		f.Add(reply)
	}
	// Where a reply has the ledger ask again, nobody is there.
	l, err := Open(Config{Addrs: []string{"unix://" + filepath.Join(f.TempDir(), "nobody")}, Daemon: "test"})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { l.Close() })
	f.Fuzz(func(t *testing.T, text string) {
		values := replyOf(text)
		if r, err := l.parse(values); err == nil {
			checkDecisions(t, l, r)
			if u, err := usage(account(), r); err == nil && len(u.Limits) != len(account().Limits) {
				t.Errorf("the state of %d limits", len(u.Limits))
			}
		}
		if len(values) == 3 {
			if e, err := entry(values); err == nil && e.ID.String() != values[0] {
				t.Errorf("entry %v of %v", e.ID, values[0])
			}
		}
	})
}

func account() *quota.Credential {
	return &quota.Credential{
		Name: "youtube",
		Limits: []quota.Limit{
			{Name: "daily", Units: 10_000, Reserve: 500, Window: quota.Sliding(24 * time.Hour)},
			{Name: "search", Units: 4_000, Window: quota.Sliding(time.Hour)},
		},
		Operations: map[string]quota.Cost{"search.list": {Every: 100}},
	}
}

// checkDecisions holds that each is a grant or a refusal, and that the refusal for
// want of units says until when.
func checkDecisions(t *testing.T, l *Ledger, r reply) {
	c := account()
	ask := quota.Ask{Request: quota.Request{Credential: c.Name, Operation: "search.list", Count: 1}, Charges: []quota.Charge{{Limit: c.Limits[0].Name, Units: 100}, {Limit: c.Limits[1].Name, Units: 100}}}
	decisions, err := l.decisions(context.Background(), c, []quota.Ask{ask, ask, ask}, r)
	if err != nil {
		return
	}
	for _, d := range decisions {
		if d.Granted() && d.GrantID != "" && !strings.HasPrefix(d.GrantID, "youtube:") {
			t.Errorf("grant %q", d.GrantID)
		}
		if d.Reason == quota.LimitExceeded && (d.Limit == "" || d.RetryAfter < time.Millisecond) {
			t.Errorf("a denial that does not say what for, or until when: %+v", d)
		}
	}
}

// replyOf makes a reply of JSON: numbers are integers where they can be. What is
// no list is none.
func replyOf(text string) []any {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var values []any
	if decoder.Decode(&values) != nil {
		return nil
	}
	return integers(values)
}

func integers(values []any) []any {
	for i, v := range values {
		switch v := v.(type) {
		case []any:
			values[i] = integers(v)
		case json.Number:
			if n, err := v.Int64(); err == nil {
				values[i] = n
			}
		}
	}
	return values
}
