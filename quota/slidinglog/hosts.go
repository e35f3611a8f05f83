package slidinglog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// A Daemon is one on the ledger, as it describes itself each second.
type Daemon struct {
	Name  string            `json:"name"`
	Terms map[string]string `json:"terms"`          // of each credential a digest of what decides
	Keep  map[string]int64  `json:"keep"`           // of each credential, µs
	Jobs  []string          `json:"jobs,omitempty"` // that it schedules

	ID   string        `json:"-"`
	Ago  time.Duration `json:"-"` // since it said so, by the engine's clock
	Self bool          `json:"-"` // it is this one
}

// A daemon that has said nothing for this long does not live, and its row goes after a day.
const (
	livesFor = 5 * time.Second
	rowsFor  = 24 * time.Hour
)

func (d Daemon) lives() bool { return d.Ago <= livesFor }

// Hosts returns the daemons on the ledger when the engine named them last, and how long ago that was; known is
// false if it has not yet.
func (l *Ledger) Hosts() (list []Daemon, age time.Duration, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rows, time.Since(l.polled), !l.polled.IsZero()
}

// row returns this host's.
func (l *Ledger) row() Daemon {
	row := Daemon{Name: l.config.Name, Terms: map[string]string{}, Keep: map[string]int64{}}
	for _, one := range l.all() {
		c, _ := one.current()
		terms := c.Terms()
		if l.config.Terms != nil {
			terms += l.config.Terms(c.Name)
		}
		sum := sha256.Sum256([]byte(terms))
		row.Terms[c.Name], row.Keep[c.Name] = hex.EncodeToString(sum[:8]), c.Keeps().Microseconds()
	}
	if l.config.Jobs != nil {
		row.Jobs = l.config.Jobs()
	}
	return row
}

// pollHosts says that this host lives, and reads who else does.
func (l *Ledger) pollHosts(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(l.config.Deadline, pollEvery))
	defer cancel()
	text, _ := json.Marshal(l.row()) // it has no field that fails
	rows, err := l.hosts(ctx, string(text))
	if err != nil {
		return // each log says so
	}
	for _, one := range l.all() {
		one.mu.Lock()
		one.keep = one.credential.Keeps().Microseconds()
		for _, row := range rows {
			one.keep = max(one.keep, row.Keep[one.name])
		}
		one.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.polled, l.rows = time.Now(), rows
}

// hosts runs the script: an empty text has this host's row go.
func (l *Ledger) hosts(ctx context.Context, text string) (rows []Daemon, err error) {
	values, err := l.config.Engine.Run(ctx, AllHosts, Hosts, []any{l.id, text, rowsFor.Milliseconds()})
	if err != nil {
		return nil, err
	}
	in := reader{values: values}
	for now := in.int(); in.more(); {
		row := Daemon{ID: in.text()}
		row.Ago, row.Self = time.Duration(now-in.int())*time.Millisecond, row.ID == l.id
		if json.Unmarshal([]byte(in.text()), &row) == nil { // another version's says nothing
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// differing says what is wrong with the other daemons that live: one has the name of this one, once the row of a
// daemon that was killed before this one began is too old; or it counts a credential by other terms.
func (l *Ledger) differing() (texts []string) {
	rows, _, _ := l.Hosts()
	self := slices.IndexFunc(rows, func(d Daemon) bool { return d.Self })
	for _, other := range rows {
		if self < 0 || other.Self || !other.lives() {
			continue
		}
		if other.Name == rows[self].Name && time.Since(l.began) > livesFor {
			texts = append(texts, fmt.Sprintf("two daemons on this ledger are named %s: give one of them another name", other.Name))
		}
		for name, digest := range other.Terms {
			if mine, has := rows[self].Terms[name]; has && mine != digest {
				texts = append(texts, fmt.Sprintf("host %s counts credential %s differently: "+
					"compare limits, costs and routes of the two files", other.Name, name))
			}
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// living returns how many hosts lived when the engine answered last, this one included.
func (l *Ledger) living() (n int) {
	rows, _, _ := l.Hosts()
	for _, row := range rows {
		n += asInt(row.lives())
	}
	return n
}
