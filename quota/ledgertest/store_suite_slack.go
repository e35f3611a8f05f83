package ledgertest

import (
	"encoding/binary"
	"math"
	"slices"

	"quotad/quota/slidinglog"
)

// grants returns a record of grants under a new tag, with the head that a store reads.
func (h *storeHistory) grants(host, terms string, most uint32) []byte {
	body := append(h.body(""), 0xa3)
	body = append(append(body, (host + "        ")[:8]...), "run "...)
	return binary.BigEndian.AppendUint32(append(body, terms...), most)
}

// A record with slack is appended behind grants of other hosts under the same terms that take no more than that.
func storeSlack(h *storeHistory) {
	const barrier = math.MaxUint32
	grants := func(host, terms string, most ...uint32) (bodies [][]byte) {
		for _, m := range most {
			bodies = append(bodies, h.grants(host, terms, m))
		}
		return bodies
	}
	for _, row := range []struct {
		name   string
		behind [][]byte
		slack  int64
		want   slidinglog.Result
	}{
		{"just enough", grants("other", "same", 3, 4), 7, slidinglog.Done},
		{"one short", grants("other", "same", 3, 5), 7, slidinglog.Behind},
		{"none", grants("other", "same", 0), 0, slidinglog.Behind},
		{"of nothing", grants("other", "same", 0), 1, slidinglog.Done},
		{"much", grants("other", "same", barrier-1, barrier-1), 2 * (barrier - 1), slidinglog.Done},
		{"a barrier", grants("other", "same", barrier), math.MaxInt32 << 20, slidinglog.Behind},
		{"a barrier between grants", grants("other", "same", 1, barrier, 1), math.MaxInt32 << 20, slidinglog.Behind},
		{"a record of the caller's host", slices.Concat(grants("other", "same", 1), grants("own", "same", 1)), 100, slidinglog.Behind},
		{"other terms", slices.Concat(grants("other", "same", 1), grants("other", "else", 1)), 100, slidinglog.Behind},
		{"no record", [][]byte{h.body("short")}, 100, slidinglog.Behind},
		{"as many as a page", grants("other", "same", slices.Repeat([]uint32{1}, slidinglog.PageSize)...), slidinglog.PageSize, slidinglog.Done},
		{"one more", grants("other", "same", slices.Repeat([]uint32{0}, slidinglog.PageSize+1)...), slidinglog.PageSize, slidinglog.Behind},
		{"nobody wrote", nil, 1, slidinglog.Done},
	} {
		at := h.begin()
		known, end := at, at
		log := []slidinglog.Position{at}
		for _, body := range row.behind {
			end = h.done(appending(end, body))
			log = append(log, end)
		}
		call := appending(known, h.grants("own", "same", 1))
		call.Slack = row.slack
		look := look(known)
		if look.Slack = row.slack; len(row.behind) > 0 {
			h.do(look, slidinglog.Behind)
		}
		o := h.do(call, row.want)
		if o.Result == slidinglog.Done {
			log = append(log, positionOf(slidinglog.Placed{At: o.At, Body: call.Body}))
			if len(o.Tail) != len(row.behind) || o.Clock != o.At.Ms {
				h.Errorf("%s: got %d records before it, want %d; clock %d", row.name, len(o.Tail), len(row.behind), o.Clock)
			}
		} else if len(o.Tail) != min(len(row.behind), slidinglog.PageSize) {
			h.Errorf("%s: behind by %d records, want %d", row.name, len(o.Tail), len(row.behind))
		}
		for i, r := range o.Tail {
			if positionOf(r) != log[i+1] {
				h.Errorf("%s: got %v after the caller's record, want %v", row.name, positionOf(r), log[i+1])
			}
		}
		h.holds(log...)
	}
	h.slackElse()
}

// slackElse holds that the other conditions are as without slack.
func (h *storeHistory) slackElse() {
	a := h.begin()
	b := h.done(appending(a, h.grants("other", "same", 1)))
	call := func(at slidinglog.Position) slidinglog.Call {
		c := appending(at, h.grants("own", "same", 1))
		c.Slack = 100
		return c
	}
	h.do(call(beginning), slidinglog.Behind) // who knows no record would notice no loss
	h.do(call(slidinglog.Position{ID: a.ID, Tag: b.Tag}), slidinglog.Lost)
	early, late := call(a), call(a)
	early.NotBefore, late.NotAfter = h.now+1, h.now-1
	h.do(early, slidinglog.Early)
	h.do(late, slidinglog.Late)
	h.holds(a, b)
}

// begin begins another log with one record.
func (h *storeHistory) begin() slidinglog.Position {
	h.Helper()
	end := beginning
	for more := true; more; {
		o := h.store.Append(h.Context(), []slidinglog.Call{look(end)})[0]
		if more = o.Result == slidinglog.Behind; more {
			end = positionOf(o.Tail[len(o.Tail)-1])
		}
	}
	h.pass(1)
	call := appending(end, h.grants("own", "same", 1))
	call.Wipe = true
	return h.done(call)
}
