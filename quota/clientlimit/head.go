package clientlimit

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"quotad/quota"
)

// A head is what the hosts that share a ledger have in common: the secrets of keys, and what each
// host counts. A host replaces it as a whole, if it is still what that host has read.
type head struct {
	Version int
	Secrets []secret // the newest first, at most two
	Hosts   map[string]hello
	// Longest is the longest window of any host, and LongestMs when a host with it was last
	// there: it may return before its window has ended.
	Longest   time.Duration
	LongestMs int64
}

// A secret hashes subjects into keys.
type secret struct {
	Bytes   []byte
	SinceMs int64 // when it was drawn, by the ledger's clock
}

// A hello is what a host says of itself.
type hello struct {
	Label  string
	SeenMs int64 // when it was last there
	Counts map[string]counting
}

// A counting is how a host counts clients.
type counting struct {
	Algorithm Algorithm
	Windows   []time.Duration
	Terms     []string // for people
}

const (
	headVersion = 1
	// headTime is how long a host may act on a head since it was read, by the ledger's clock.
	headTime = time.Minute
	// sealTime is how long a host may not know a new secret yet, with some time to spare.
	sealTime = 2 * headTime
	// secretTime is how long a secret is the newest, at least.
	secretTime = 24 * time.Hour
	// A host says hello every helloInterval, and counts as there for hostTime.
	helloInterval = time.Minute
	hostTime      = 5 * time.Minute
	// longestInterval is how often the time of the longest window is updated.
	longestInterval = time.Hour
)

// decodeHead reads a head. One that is damaged is lost, as a record may be.
func decodeHead(text []byte) (h head, err error) {
	if err := json.Unmarshal(text, &h); err != nil {
		return head{}, nil
	}
	if h.Version != headVersion {
		return h, fmt.Errorf("%w: hosts with another version of quotad share the ledger of clients: upgrade all of them", quota.ErrUnavailable)
	}
	h.Secrets = slices.DeleteFunc(h.Secrets, func(s secret) bool { return len(s.Bytes) != SecretSize })
	return h, nil
}

func (h head) encode() []byte {
	h.Version = headVersion
	text, err := json.Marshal(h)
	if err != nil {
		panic(err) // nothing in it can fail
	}
	return text
}

// next returns the head as it should be from now on. Lost secrets are those that this host still
// knows; if it knows none, one is drawn. A host without a name writes no hello.
func (h head) next(self string, mine hello, known []secret, nowMs int64) head {
	if len(h.Secrets) == 0 {
		h.Secrets = known
	}
	if h.Hosts == nil {
		h.Hosts = make(map[string]hello)
	}
	maps.DeleteFunc(h.Hosts, func(_ string, there hello) bool { return !there.within(hostTime, nowMs) })
	if was := h.Hosts[self]; self != "" && !(was.within(helloInterval, nowMs) && was.says(mine)) {
		mine.SeenMs = nowMs
		h.Hosts[self] = mine
	}
	h.updateLongest(h.longest(mine), nowMs)
	if len(h.Secrets) == 0 || nowMs-h.Secrets[0].SinceMs >= max(secretTime, h.Longest).Milliseconds() {
		drawn := secret{Bytes: make([]byte, SecretSize), SinceMs: nowMs}
		rand.Read(drawn.Bytes)
		h.Secrets = append([]secret{drawn}, h.Secrets[:min(1, len(h.Secrets))]...)
	}
	return h
}

// endsMs is when nothing depends on the head any more, if no host reads it until then: every record
// of its newest secret has expired.
func (h head) endsMs(nowMs int64) int64 {
	return nowMs + 2*max(secretTime, h.Longest).Milliseconds()
}

func (h *head) updateLongest(longest time.Duration, nowMs int64) {
	since := time.Duration(nowMs-h.LongestMs) * time.Millisecond
	if longest > h.Longest || longest == h.Longest && since >= longestInterval || since >= h.Longest+longestInterval {
		h.Longest, h.LongestMs = longest, nowMs
	}
}

// longest is the longest window of any host that is there.
func (h head) longest(mine hello) (longest time.Duration) {
	for _, there := range append(slices.Collect(maps.Values(h.Hosts)), mine) {
		for _, counts := range there.Counts {
			for _, window := range counts.Windows {
				longest = max(longest, window)
			}
		}
	}
	return longest
}

// otherWindows returns the windows in which other hosts count clients, in the same records.
func (h head) otherWindows(self, name string, algorithm Algorithm) (windows []time.Duration) {
	for host, there := range h.Hosts {
		if counts := there.Counts[name]; host != self && counts.Algorithm == algorithm {
			windows = append(windows, counts.Windows...)
		}
	}
	slices.Sort(windows)
	return slices.Compact(windows)
}

// differences returns how other hosts count the same clients otherwise than this one.
func (h head) differences(self string, mine hello) (found []string) {
	for _, host := range slices.Sorted(maps.Keys(h.Hosts)) {
		there := h.Hosts[host]
		if host == self {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(mine.Counts)) {
			counts, both := there.Counts[name]
			if text := quota.DifferingTerms(there.Label, counts.Terms, mine.Counts[name].Terms); both && text != "" {
				found = append(found, "clients "+name+": "+text)
			}
		}
	}
	return found
}

func (h hello) within(time time.Duration, nowMs int64) bool {
	ago := nowMs - h.SeenMs
	return -time.Milliseconds() < ago && ago < time.Milliseconds()
}

// says reports whether a hello is the same but for its time.
func (h hello) says(other hello) bool {
	h.SeenMs, other.SeenMs = 0, 0
	return bytes.Equal(head{Hosts: map[string]hello{"": h}}.encode(), head{Hosts: map[string]hello{"": other}}.encode())
}

// greeting is the hello of a host that has these clients.
func greeting(label string, all []*Clients) hello {
	h := hello{Label: label, Counts: make(map[string]counting, len(all))}
	for _, c := range all {
		counts := counting{Algorithm: c.Algorithm, Terms: c.terms()}
		for _, limit := range c.Limits {
			counts.Windows = append(counts.Windows, limit.Window.Length)
		}
		h.Counts[c.Name] = counts
	}
	return h
}

// terms say how the clients are counted.
func (c *Clients) terms() []string {
	subjects := "hashed"
	if c.Plain {
		subjects = "plain"
	}
	lines := []string{"algorithm: " + string(c.Algorithm), "subjects: " + subjects}
	for _, limit := range c.Limits {
		lines = append(lines, fmt.Sprintf("limit %s: %s %s", limit.Name, limit.Units.Text(), limit.Describe()))
	}
	for operation, units := range c.Operations {
		lines = append(lines, fmt.Sprintf("operation %s: %s", operation, units.Text()))
	}
	slices.Sort(lines)
	return lines
}
