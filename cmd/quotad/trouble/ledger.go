package trouble

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"quotad/quota"
)

// A LedgerState is the state of the ledger, as it says itself.
type LedgerState struct {
	quota.Health
	Down   bool // it was found not to answer, since it last did
	IsOpen bool // some calls are granted without it
}

// A Loss is what Redis lost of a credential's log.
type Loss struct {
	Credential string
	At         time.Time
	Back       time.Time // when it was put back; zero: it is not yet
	Records    int       // that this host put back
}

// A DiskState is that of the disk of the state directory.
type DiskState struct {
	Dir        string
	Free, Size uint64 // in bytes; no Size: unknown
	WasLow     bool   // it was in the list before
}

// A FileState is that of the configuration.
type FileState struct {
	Name      string
	Error     string // why it could not be loaded; empty: it could
	FailedAt  time.Time
	ChangedAt time.Time // after it was read; zero: it was not
}

// refused says what Redis or a disk answers that does not write, and what shows more.
var refused = [...]struct{ answer, says, do string }{
	{"OOM", "Redis refuses writes (OOM)", "redis-cli config get maxmemory"},
	{"NOREPLICAS", "Redis refuses writes (NOREPLICAS)", "redis-cli info replication"},
	{"MISCONF", "Redis refuses writes (MISCONF)", "redis-cli info persistence"},
	{"READONLY", "Redis refuses writes (READONLY)", "redis-cli role"},
	{"NOPERM", "Redis refuses writes (NOPERM)", "redis-cli acl list"},
	{"no space left", "the ledger cannot be written, because the disk is full", "df"},
}

const lostTime = 24 * time.Hour // a loss is reported for that long

// ledger judges the ledger.
func (l *list) ledger() {
	h := l.State.Ledger
	isLost := func(loss Loss) bool { return loss.Back.IsZero() || slices.Contains(h.Recovering, loss.Credential) }
	recovers := slices.ContainsFunc(l.Losses, isLost)
	if !h.Reachable && h.State != "" && (!recovers || h.Down && len(h.Recovering) == 0) {
		l.add(l.down())
	}
	for _, loss := range l.Losses {
		one := Trouble{Kind: Ledger, Of: "credential " + loss.Credential, Cause: "lost", Since: loss.At, Grave: true,
			Says: fmt.Sprintf("Redis lost its data of %s at %s: nothing is granted until it is put back", loss.Credential, l.at(loss.At))}
		if !isLost(loss) {
			one.Kind, one.Grave = Lost, false
			one.Says = fmt.Sprintf("Redis lost its data of %s at %s; put back from this host, %s",
				loss.Credential, l.at(loss.At), quota.Count(loss.Records, "record", "records"))
		}
		if one.Grave || l.now.Sub(loss.Back) < lostTime {
			l.add(one)
		}
	}
	for _, text := range h.Warnings {
		l.add(Trouble{Kind: Server, Of: "ledger", Says: text, Do: l.check()})
	}
	for _, text := range h.Hosts {
		l.add(Trouble{Kind: Hosts, Of: "ledger", Says: text})
	}
	for _, text := range h.Clock {
		l.add(Trouble{Kind: Server, Of: "ledger", Cause: "clock", Says: text, Do: "timedatectl", Grave: true})
	}
	for _, text := range h.Unwritten {
		l.add(Trouble{Kind: Disk, Of: "host", Cause: "write", Says: text, Do: "df " + l.State.Disk.Dir, Grave: true})
	}
}

// down says that the ledger does not decide.
func (l *list) down() Trouble {
	h := l.State.Ledger
	one := Trouble{Kind: Ledger, Of: "ledger", Grave: true, Do: l.check()}
	lost := "every call is refused"
	if h.IsOpen {
		lost = "every call is refused that on_outage does not open"
	}
	for _, r := range refused {
		if strings.Contains(h.State, r.answer) {
			one.Cause, one.Says, one.Do = r.answer, r.says+": "+lost, r.do
			if r.do == "df" {
				one.Do = "df " + l.State.Disk.Dir
			}
			return one
		}
	}
	one.Says = "the ledger does not decide, and " + lost + ": " + h.State
	if h.Backend == "redis" {
		one.Says = "Redis does not serve, and " + lost + ": " + h.State
	}
	if _, why, away := strings.Cut(h.State, "cannot reach redis: "); away {
		one.Cause, one.Says = "away", "Redis cannot be reached: "+lost+": "+why
	}
	return one
}

// check is the command that says what is wrong with the configuration, the state or Redis.
func (l *list) check() string { return "quotad --check --config " + l.State.File.Name }

const (
	lowDisk = 64 << 20 // bytes
	lowPart = 0.02     // of the disk
	enough  = 1.5      // of these bounds, until it is low no more
)

// host judges what is of this host: its disk, its clock, its files.
func (l *list) host() {
	d, free := l.State.Disk, float64(l.State.Disk.Free)
	if d.WasLow {
		free /= enough
	}
	if d.Size > 0 && (free < lowDisk || free < lowPart*float64(d.Size)) {
		l.add(Trouble{Kind: Disk, Of: "host", Cause: "low", Says: fmt.Sprintf("the disk of %s has %s MB left", d.Dir, quota.Thousands(int64(d.Free>>20))), Do: "df " + d.Dir})
	}
	if l.now.Before(l.ClockWas) {
		l.add(Trouble{Kind: Server, Of: "host", Cause: "clock", Do: "timedatectl", Says: fmt.Sprintf("the clock was set back by %s; slots until %s are run as they come", quota.Brief(l.ClockBy.Round(time.Second)), l.at(l.ClockWas))})
	}
	if n := len(l.Kills); n > 1 && l.now.Sub(l.Kills[n-1]) < 24*time.Hour {
		l.add(Trouble{Kind: Server, Of: "host", Cause: "killed", Says: fmt.Sprintf("quotad was killed %d times since %s", n, l.at(l.Kills[0])), Do: "journalctl -u quotad -n 50", Since: l.Kills[0]})
	}
	f := l.State.File
	switch {
	case f.Error != "":
		l.add(Trouble{Kind: File, Of: f.Name, Cause: "error", Says: f.Name + " was not loaded, and the former configuration runs: " + f.Error, Do: "quotactl reload", Since: f.FailedAt})
	case !f.ChangedAt.IsZero():
		l.add(Trouble{Kind: File, Of: f.Name, Says: f.Name + " is newer than what runs", Do: "quotactl reload", Since: f.ChangedAt})
	}
}
