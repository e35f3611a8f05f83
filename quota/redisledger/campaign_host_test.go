package redisledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger"
	"quotad/quota/slidinglog"
)

// What a host of the campaign is told by its environment.
const (
	campaignNameVariable    = "QUOTAD_CHILD_HOST" // its name
	campaignBootVariable    = "QUOTAD_CHILD_BOOT" // how often it was started before
	campaignFolderVariable  = "QUOTAD_CHILD_DIR"
	campaignAddrVariable    = "QUOTAD_CHILD_REDIS"
	campaignClientsVariable = "QUOTAD_CHILD_CLIENTS"
	campaignSeedVariable    = "QUOTAD_CHILD_SEED"
)

// The credentials of the campaign. One is filled again every other second, one is
// spent early and must stay so, and one may be used during an outage. The day of
// the first only keeps its log together for whoever checks it.
func campaignCredentials() []*quota.Credential {
	const day = 24 * time.Hour
	return []*quota.Credential{
		{
			Name: "steady",
			Limits: []quota.Limit{
				{Name: "burst", Units: 60, Window: quota.Sliding(1500 * time.Millisecond)},
				{Name: "day", Units: quota.MaxUnits, Window: quota.Sliding(day)},
			},
			Operations: map[string]quota.Cost{"one": {Every: 1}, "seven": {Every: 7}},
		},
		{
			Name:       "spent",
			Limits:     []quota.Limit{{Name: "day", Units: 600, Window: quota.Sliding(day)}},
			Operations: map[string]quota.Cost{"one": {Every: 1}, "ten": {Every: 10}},
		},
		{
			Name:       "loose",
			Limits:     []quota.Limit{{Name: "day", Units: quota.MaxUnits, Window: quota.Sliding(day)}},
			Operations: map[string]quota.Cost{"one": {Every: 1}},
		},
	}
}

var campaignPolicies = map[string]slidinglog.Policy{"loose": {Open: map[string]bool{"one": true}, Units: 50}}

// A note is a line of what a client asked and was told, written before it goes on.
type note struct {
	Kind       noteKind     `json:"kind"`
	Marker     string       `json:"marker"` // names the request, also in the log
	At         time.Time    `json:"at"`
	Credential string       `json:"credential,omitempty"`
	Units      quota.Units  `json:"units,omitempty"`
	Grant      string       `json:"grant,omitempty"`
	Outage     bool         `json:"outage,omitempty"`
	Reason     quota.Reason `json:"reason,omitempty"`
}

type noteKind string

const (
	asked    noteKind = "asked"
	answered noteKind = "answered"
	settles  noteKind = "settles" // a grant to Units; whatever becomes of that
)

// TestCampaignHost is a daemon with its clients, until its standard input ends.
func TestCampaignHost(t *testing.T) {
	name := os.Getenv(campaignNameVariable)
	if name == "" {
		t.Skip("only a process of the campaign is a host")
	}
	service, closeAll := openCampaignHost(t, name)
	defer closeAll()
	clients, err := strconv.Atoi(os.Getenv(campaignClientsVariable))
	if err != nil {
		t.Fatal(err)
	}
	boot := name + "." + os.Getenv(campaignBootVariable)
	greet(newCampaignClient(t, service, boot+".first"))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range clients {
		c := newCampaignClient(t, service, fmt.Sprintf("%s.%d", boot, i))
		wg.Go(func() { c.run(ctx) })
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	cancel()
	wg.Wait()
	awaitHealth(t, service)
}

// greet has every credential decided about once: a host that has not heard of a log
// cannot know that it was lost.
func greet(c *campaignClient) {
	for i, credential := range campaignCredentials() {
		for n := 0; c.request(c.t.Context(), credential, fmt.Sprintf("%s.%d.%d", c.name, i, n)) == unavailable; n++ {
		}
	}
	c.notes.Close()
}

// openCampaignHost puts a daemon's ledger together as in production.
func openCampaignHost(t *testing.T, name string) (*quota.Service, func()) {
	const deadline = 250 * time.Millisecond
	store, err := redisledger.OpenStore(redisledger.Config{Addrs: []string{os.Getenv(campaignAddrVariable)}})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(os.Getenv(campaignFolderVariable), "ledger")
	ledger := slidinglog.Open(slidinglog.Config{Engine: store, Dir: dir, Name: name, Deadline: deadline})
	service, err := quota.NewService(ledger, campaignCredentials(), deadline)
	if err == nil {
		err = ledger.SetCredentials(service.Credentials(), campaignPolicies)
	}
	if err != nil {
		t.Fatal(err)
	}
	ledger.Await(t.Context())
	return service, func() {
		if err := ledger.Close(); err != nil {
			t.Error(err)
		}
	}
}

// awaitHealth waits until everything that was granted alone is booked back, and until this
// host knows of each log that it is whole: it may not have noticed the last loss yet.
func awaitHealth(t *testing.T, service *quota.Service) {
	timeout := time.After(hanging)
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		health := service.Health(t.Context())
		if health.Reachable && isWhole(t, service) {
			return
		}
		select {
		case <-timeout:
			t.Fatalf("the ledger does not recover: %+v", health)
		default:
		}
	}
}

// isWhole tells whether the host serves every log, and has just looked at its end.
func isWhole(t *testing.T, service *quota.Service) bool {
	for _, c := range campaignCredentials() {
		if u, err := service.Usage(t.Context(), c.Name); err != nil || !u.AsOf.IsZero() {
			return false
		}
	}
	return service.Health(t.Context()).Reachable
}

// A campaignClient asks for this and that, and writes down what it was told.
type campaignClient struct {
	t       *testing.T
	service *quota.Service
	name    string
	rand    *rand.Rand
	notes   *os.File
	tick    *time.Ticker
}

func newCampaignClient(t *testing.T, service *quota.Service, name string) *campaignClient {
	notes, err := os.OpenFile(filepath.Join(os.Getenv(campaignFolderVariable), "notes-"+name), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(os.Getenv(campaignSeedVariable), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	hash := fnv.New64()
	hash.Write([]byte(name))
	draw := rand.New(rand.NewPCG(seed, hash.Sum64()))
	return &campaignClient{t: t, service: service, name: name, rand: draw, notes: notes, tick: time.NewTicker(10 * time.Millisecond)}
}

func (c *campaignClient) run(ctx context.Context) {
	defer c.notes.Close()
	for n := 0; c.goesOn(ctx); n++ {
		c.request(ctx, campaignCredentials()[c.rand.IntN(3)], fmt.Sprintf("%s.%d", c.name, n))
	}
}

// goesOn waits for the next turn, and reports whether there is one.
func (c *campaignClient) goesOn(ctx context.Context) bool {
	select {
	case <-c.tick.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// unavailable is what a client notes of a ledger that could not decide.
const unavailable quota.Reason = "ledger_unavailable"

// request asks once, or with an id as often as it takes to be told, and returns
// what it was told last.
func (c *campaignClient) request(ctx context.Context, credential *quota.Credential, marker string) quota.Reason {
	operations := slices.Sorted(maps.Keys(credential.Operations))
	r := quota.Request{
		Credential: credential.Name, Operation: operations[c.rand.IntN(len(operations))], Count: 1,
		Caller: quota.Caller{Job: "campaign", Region: marker},
	}
	if c.rand.IntN(2) == 0 {
		r.RequestID = marker
	}
	c.note(note{Kind: asked, Marker: marker, Credential: r.Credential, Units: credential.Operations[r.Operation].Every})
	for {
		d, err := c.service.Acquire(context.Background(), r)
		if err != nil {
			d.Reason = unavailable
		}
		c.note(note{Kind: answered, Marker: marker, Grant: d.GrantID, Outage: d.Outage, Reason: d.Reason})
		if d.Granted() {
			c.perhapsRelease(marker, r.Credential, d)
		}
		if d.Reason != unavailable || r.RequestID == "" || !c.goesOn(ctx) {
			return d.Reason
		}
	}
}

// perhapsRelease gives some of what was granted back.
func (c *campaignClient) perhapsRelease(marker, credential string, d quota.Decision) {
	if credential != "spent" || c.rand.IntN(10) > 0 {
		return
	}
	c.note(note{Kind: settles, Marker: marker})
	// An error leaves it open whether it was released: the checker expects either.
	c.service.Settle(context.Background(), d.GrantID, quota.Settlement{Caller: quota.Caller{Job: "campaign", Region: marker}})
}

func (c *campaignClient) note(n note) {
	n.At = time.Now()
	line, err := json.Marshal(n)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.notes.Write(append(line, '\n')); err != nil {
		c.t.Error(err)
	}
}
