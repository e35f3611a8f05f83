package slidinglog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"sync"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// A memory is a Store: the logs that hosts share, in one process. A store keeps order and a clock, and decides
// nothing. It appends a record if the log still ends where the caller saw it end.
//
// Two things of the contract are left out: old records are never dropped, and a call with slack is refused like
// any other. ledgertest.RunStore tests a store against the whole of it.
type memory struct {
	now func() time.Time

	mu   sync.Mutex
	logs map[string][]slidinglog.Placed
}

func (m *memory) Append(_ context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	outcomes := make([]slidinglog.Outcome, len(calls))
	for i, call := range calls {
		outcomes[i] = m.append(call)
	}
	return outcomes
}

func (m *memory) append(c slidinglog.Call) slidinglog.Outcome {
	records, now := m.logs[c.Credential], m.now().UnixMilli()
	var end slidinglog.Position
	if len(records) > 0 {
		end = position(records[len(records)-1])
	}
	clock := max(now, end.ID.Ms) // it never runs back behind the log
	if end != c.At && !c.Blind { // others have written since, or the caller's own record is gone
		i := slices.IndexFunc(records, func(r slidinglog.Placed) bool { return position(r) == c.At })
		if i < 0 && !c.At.IsZero() {
			return slidinglog.Outcome{Result: slidinglog.Lost, Clock: now}
		}
		tail := records[i+1:]
		page := min(len(tail), slidinglog.PageSize)
		return slidinglog.Outcome{Result: slidinglog.Behind, Clock: now, Tail: tail[:page:page], More: page < len(tail)}
	}
	switch {
	case len(c.Body) == 0: // a look
		return slidinglog.Outcome{Result: slidinglog.End, Clock: now}
	case clock < c.NotBefore:
		return slidinglog.Outcome{Result: slidinglog.Early, Clock: now}
	case clock > c.NotAfter:
		return slidinglog.Outcome{Result: slidinglog.Late, Clock: now}
	}
	if c.Wipe { // an operator's reset
		records, end, clock = nil, slidinglog.Position{}, now
	}
	at := quota.ID{Ms: max(clock, c.Floor)}
	if at.Ms == end.ID.Ms {
		at.Seq = end.ID.Seq + 1
	}
	m.logs[c.Credential] = append(records, slidinglog.Placed{At: at, Body: bytes.Clone(c.Body)})
	return slidinglog.Outcome{Result: slidinglog.Done, Clock: at.Ms, At: at}
}

// position is where a record stands, with the tag that it begins with.
func position(r slidinglog.Placed) slidinglog.Position {
	p := slidinglog.Position{ID: r.At}
	copy(p.Tag[:], r.Body)
	return p
}

func (*memory) Name() string                             { return "the memory of one process" }
func (*memory) Health(context.Context) ([]string, error) { return nil, nil }
func (*memory) Close() error                             { return nil }

// Two hosts share YouTube's 10,000 units. Each decides on its own copy of the log. What the second one has not
// read yet, its first append is refused for and answered with; it then decides again.
func ExampleStore() {
	store := &memory{now: time.Now, logs: make(map[string][]slidinglog.Placed)}
	youtube := &quota.Credential{
		Name:       "youtube",
		Limits:     []quota.Limit{{Name: "daily", Units: 10_000, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"search.list": {Every: 100}},
	}
	for _, host := range []string{"alpha", "beta"} {
		ledger, err := slidinglog.Open(slidinglog.Config{
			File:        ledgertest.NewMemFile(), // boltledger.Open keeps the host's copy on disk
			Store:       store,
			Label:       host,
			Credentials: []*quota.Credential{youtube},
			Quiet:       time.Millisecond, // normally 3 s
		})
		if err != nil {
			log.Fatal(err)
		}
		defer ledger.Close()
		service, err := quota.NewService(ledger, []*quota.Credential{youtube}, time.Second)
		if err != nil {
			log.Fatal(err)
		}
		ctx, searches := context.Background(), quota.Request{Credential: "youtube", Operation: "search.list", Count: 60}
		d, err := service.Acquire(ctx, searches)
		for errors.Is(err, quota.ErrRecovering) && quota.Sleep(ctx, time.Millisecond) {
			d, err = service.Acquire(ctx, searches) // an empty log may be a lost one: it is quiet, until all hosts had time to say so
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(host, "granted:", d.Granted(), "left:", d.Remaining())
	}
	// Output:
	// alpha granted: true left: 4000
	// beta granted: false left: 4000
}
