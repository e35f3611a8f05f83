package slidinglog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"quotad/quota"
)

// A hostRow is what a daemon says of itself each second.
type hostRow struct {
	Name  string            `json:"name"`
	Terms map[string]string `json:"terms"`          // of each credential a digest of what decides
	Keep  map[string]int64  `json:"keep"`           // of each credential, µs
	Jobs  []string          `json:"jobs,omitempty"` // that it schedules

	ID  string        `json:"-"`
	Ago time.Duration `json:"-"` // how long ago it said so, by the engine's clock
}

// A daemon that has said nothing for this long does not live, and its row goes after a day.
const (
	livesFor = 5 * time.Second
	rowsFor  = 24 * time.Hour
)

// A Daemon is one on the ledger.
type Daemon struct {
	ID, Name string
	Jobs     []string      // that it schedules
	Ago      time.Duration // since it said so, by the engine's clock
	Self     bool          // it is this one
}

// Hosts returns the daemons on the ledger when the engine named them last, and how long ago that was; known is
// false if it has not yet.
func (l *Ledger) Hosts() (list []Daemon, age time.Duration, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, row := range l.rows {
		list = append(list, Daemon{row.ID, row.Name, row.Jobs, row.Ago, row.ID == l.config.ID})
	}
	return list, time.Since(l.polled), !l.polled.IsZero()
}

// row returns this host's.
func (l *Ledger) row() hostRow {
	row := hostRow{Name: l.config.Name, Terms: map[string]string{}, Keep: map[string]int64{}}
	for _, one := range l.all() {
		c := one.current()
		row.Terms[one.name], row.Keep[one.name] = l.digest(c), c.Keeps().Microseconds()
	}
	if l.config.Jobs != nil {
		row.Jobs = l.config.Jobs()
	}
	return row
}

// digest is of all that decides about a credential's calls.
func (l *Ledger) digest(c *quota.Credential) string {
	more := ""
	if l.config.Terms != nil {
		more = l.config.Terms(c.Name)
	}
	sum := sha256.Sum256([]byte(c.Terms() + more))
	return hex.EncodeToString(sum[:8])
}

// followHosts says each second that this host lives, and reads who else does.
func (l *Ledger) followHosts(ctx context.Context) {
	for {
		l.pollHosts(ctx)
		if !quota.Sleep(ctx, pollEvery) {
			return
		}
	}
}

func (l *Ledger) pollHosts(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(l.config.Deadline, pollEvery))
	defer cancel()
	row := l.row()
	text, _ := json.Marshal(row) // it has no field that fails
	rows, err := l.hosts(ctx, string(text))
	if err != nil {
		return // each log says so
	}
	together := map[string]time.Time{} // of the others with this name
	differs := map[string]bool{}
	keep := maps.Clone(row.Keep)
	living := 0
	for _, other := range rows {
		for name, us := range other.Keep {
			keep[name] = max(keep[name], us)
		}
		if other.Ago > livesFor {
			continue
		}
		living++
		if other.ID == l.config.ID {
			continue
		}
		if other.Name == row.Name {
			since, known := l.together[other.ID]
			if !known {
				since = time.Now()
			}
			together[other.ID] = since
			if time.Since(since) > livesFor {
				differs[fmt.Sprintf("two daemons on this ledger are named %s: give one of them another name", row.Name)] = true
			}
		}
		for name, digest := range other.Terms {
			if mine, has := row.Terms[name]; has && mine != digest {
				differs[fmt.Sprintf("host %s counts credential %s differently: "+
					"compare limits, costs and routes of the two files", other.Name, name)] = true
			}
		}
	}
	l.together = together
	for _, one := range l.all() {
		one.mu.Lock()
		one.keep = max(keep[one.name], one.credential.Keeps().Microseconds())
		one.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.polled = time.Now()
	l.rows, l.differs, l.lives = rows, slices.Sorted(maps.Keys(differs)), living
}

// hosts runs the script: an empty text has this host's row go.
func (l *Ledger) hosts(ctx context.Context, text string) (rows []hostRow, err error) {
	values, err := l.config.Engine.Run(ctx, AllHosts, Hosts, []any{l.config.ID, text, rowsFor.Milliseconds()})
	if err != nil {
		return nil, err
	}
	in := reader{values: values}
	for now := in.int(); len(in.values) > 0 && !in.wrong; {
		row := hostRow{ID: in.text()}
		row.Ago = time.Duration(now-in.int()) * time.Millisecond
		if json.Unmarshal([]byte(in.text()), &row) == nil { // another version's says nothing
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// living returns how many hosts lived when the engine answered last, this one included.
func (l *Ledger) living() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lives
}
