package redisledger

import (
	"errors"
	"strings"
	"testing"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
)

// A log that another version wrote is refused by every verb, with the way out, and stays
// as it is; under another prefix a log is begun beside it.
func TestAnotherVersionsAccountIsRefused(t *testing.T) {
	server := redistest.Start(t)
	for _, version := range []string{"2", "4"} {
		t.Run(version, func(t *testing.T) {
			prefix := "version-" + version + ":"
			l := openAt(t, Config{Addrs: []string{server.Addr}, Daemon: "a", KeyPrefix: prefix})
			c := hundred()
			key := l.keys(c.Name, "")[0]
			first := acquireOne(t, l, c, "")
			written, err := l.client.Get(t.Context(), key).Result()
			if err != nil {
				t.Fatal(err)
			}
			others := version + written[1:]
			if err := l.client.Set(t.Context(), key, others, 0).Err(); err != nil {
				t.Fatal(err)
			}
			grant, err := quota.ParseID(first.GrantID[len(c.Name)+1:])
			if err != nil {
				t.Fatal(err)
			}
			for verb, call := range map[string]func() error{
				"acquire": func() error {
					_, err := l.Acquire(t.Context(), c, []quota.Ask{ask("list", "")})
					return err
				},
				"peek": func() error {
					_, err := l.Peek(t.Context(), c, []string{"list"}, []quota.Charge{{Limit: "daily", Units: 1}}, false)
					return err
				},
				"usage": func() error {
					_, err := l.Usage(t.Context(), c)
					return err
				},
				"settle": func() error {
					_, err := l.Settle(t.Context(), c, quota.Settlement{Grant: grant})
					return err
				},
				"adjust": func() error {
					_, err := l.Adjust(t.Context(), c, quota.Adjustment{Limit: "daily", Units: 1})
					return err
				},
				"reset": func() error { return l.Reset(t.Context(), c, quota.Caller{}, "") },
			} {
				err := call()
				if !errors.Is(err, quota.ErrUnavailable) || !strings.Contains(err.Error(), "another version of quotad wrote this log") ||
					!strings.Contains(err.Error(), "key_prefix") {
					t.Errorf("%s: got %v, want that it is another version's, and what can be done", verb, err)
				}
			}
			if left, err := l.client.Get(t.Context(), key).Result(); err != nil || left != others {
				t.Errorf("the account was changed to %q, %v", left, err)
			}
			beside := openAt(t, Config{Addrs: []string{server.Addr}, Daemon: "a", KeyPrefix: prefix + "new:"})
			acquireOne(t, beside, c, "")
		})
	}
}
