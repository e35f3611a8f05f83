package clientlimit

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// keyOf returns the key of a subject in clients of a name.
func keyOf(name string, salt Salt, text string, plain bool) Key {
	c := limited(Log, 5, time.Minute)
	c.Name, c.Plain = name, plain
	return c.Ask(salt, text, 1).Subject
}

func TestKeys(t *testing.T) {
	secret, other := Salt{Before: bytes.Repeat([]byte{1}, saltSize)}, Salt{Before: bytes.Repeat([]byte{2}, saltSize)}
	for _, row := range []struct{ name, one, two string }{
		{"an address and its IPv6 form", "192.0.2.1", "::ffff:192.0.2.1"},
		{"an address, short and long", "2001:db8::1", "2001:0DB8:0:0:0:0:0:1"},
		{"a network by any of its addresses", "2001:db8:0:1::/64", "2001:db8:0:1::5/64"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if keyOf("public", secret, row.one, true) != keyOf("public", secret, row.two, false) {
				t.Errorf("%q and %q have different keys", row.one, row.two)
			}
		})
	}
	seen := map[Key]string{}
	long := strings.Repeat("x", maxPlain)
	for _, subject := range []string{"", "=", "#", "alice", "Alice", "\xff\x00", "192.0.2.1", "192.0.2.2", "192.0.2.1/32", "2001:db8::/64", "2001:db8::",
		long, long + "x", long + "y", strings.Repeat("y", 1<<20), string(keyOf("public", secret, "192.0.2.1", true))} {
		key := keyOf("public", secret, subject, true)
		if with, twice := seen[key]; twice {
			t.Errorf("%.20q and %.20q have one key", subject, with)
		}
		seen[key] = subject
		if len(key) > maxPlain+1 {
			t.Errorf("the key of %.20q has %d bytes", subject, len(key))
		}
		if hides := len(subject) > maxPlain || strings.HasPrefix(subject, "192.") || strings.HasPrefix(subject, "2001:"); hides {
			if key[0] != '#' || keyOf("public", other, subject, true) == key {
				t.Errorf("%.20q is not hashed with the secret: %q", subject, key)
			}
		}
		if hidden := keyOf("public", secret, subject, false); hidden[0] != '#' || keyOf("public", other, subject, false) == hidden {
			t.Errorf("%.20q stands as %q where subjects are hidden", subject, hidden)
		}
	}
	if keyOf("public", secret, "alice", false) == keyOf("partners", secret, "alice", false) {
		t.Error("a subject of two groups has one key")
	}
}
