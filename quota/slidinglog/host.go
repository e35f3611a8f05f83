package slidinglog

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// A head is what a file has about its host.
type head struct {
	Version int
	Host    HostID
	Runs    []uint32 // the last is that of this process
	Store   string   // its name; "": none
}

// headVersion is the version of a file.
const headVersion = 1

// maxRuns bounds the runs that a host remembers as its own.
const maxRuns = 4096

// openHead draws the id of this run, and writes it before its first use.
func (l *Ledger) openHead() error {
	written, err := l.config.File.Head()
	if err != nil {
		return err
	}
	name := ""
	if l.config.Store != nil {
		name = l.config.Store.Name()
	}
	h, err := readHead(written, name)
	if err != nil {
		return err
	}
	if len(written) == 0 {
		l.draw(h.Host[:])
	}
	h.Version, h.Store = headVersion, name
	var run [4]byte
	l.draw(run[:])
	h.Runs = append(h.Runs, max(1, binary.BigEndian.Uint32(run[:])&runMask))
	h.Runs = h.Runs[max(0, len(h.Runs)-maxRuns):]
	return l.setHead(h)
}

// readHead reads what a file has about its host; store is the name of the store that is configured.
func readHead(written []byte, store string) (h head, err error) {
	if len(written) == 0 {
		return h, nil
	}
	if err := json.Unmarshal(written, &h); err != nil {
		return h, fmt.Errorf("the state of this host is damaged: %w", err)
	}
	if h.Version != headVersion {
		return h, fmt.Errorf("the state of this host: %w", ErrFileVersion)
	}
	return h, CheckStore(h.Store, store)
}

// CheckFile returns why no ledger can be opened with a file that has these credentials, and a store of that name; "":
// without one.
func CheckFile(file File, credentials []string, store string) error {
	written, err := file.Head()
	if err == nil {
		_, err = readHead(written, store)
	}
	for _, name := range credentials {
		err = cmp.Or(err, file.View(name, func(t Tables) error {
			if _, err := decodeFacts(t.Facts()); err != nil {
				return fmt.Errorf("credential %q: %w", name, err)
			}
			return nil
		}))
	}
	return err
}

// CheckStore refuses to use a host's state without the store that it was written with, or with one
// where there was none.
func CheckStore(was, is string) error {
	if (was == "") == (is == "") {
		return nil
	}

	name := func(store string) string {
		if store == "" {
			return `backend = "embedded"`
		}
		return "the ledger in " + store
	}
	restart := "move ledger.db* away to start without what it counts"
	if is == "" {
		restart += ", and start once with --accept-new-ledger"
	}
	return fmt.Errorf("this state directory belongs to %s, and the configuration names %s: set it back, name another state_dir, or %s; to carry over what is used, note it by quotactl, then book it by quotactl book CREDENTIAL LIMIT UNITS", name(was), name(is), restart)
}

// setHead writes a head, and then uses it.
func (l *Ledger) setHead(h head) error {
	b, err := json.Marshal(&h)
	if err == nil {
		err = l.config.File.SetHead(b)
	}
	if err == nil {
		l.identity.Lock()
		defer l.identity.Unlock()
		l.head = h
	}
	return err
}

// draw fills b with random bytes.
func (l *Ledger) draw(b []byte) {
	if _, err := io.ReadFull(l.config.Random, b); err != nil {
		panic(err) // crypto/rand never fails
	}
}

// self returns the ids of this host and this run.
func (l *Ledger) self() (HostID, uint32) {
	l.identity.Lock()
	defer l.identity.Unlock()
	return l.head.Host, l.head.Runs[len(l.head.Runs)-1]
}

// Host returns the id of this host. A clone draws another one when it notices the other host.
func (l *Ledger) Host() HostID {
	host, _ := l.self()
	return host
}

// detectClone draws another id for this host if a record has its id but not one of its runs: a
// clone of its state wrote it.
func (l *Ledger) detectClone(r *Record) error {
	is := func() (head, bool) {
		l.identity.Lock()
		defer l.identity.Unlock()
		return l.head, r.Host == l.head.Host && !slices.Contains(l.head.Runs, r.Run)
	}
	if _, clone := is(); !clone {
		return nil
	}
	l.renaming.Lock()
	defer l.renaming.Unlock()
	next, clone := is()
	if !clone { // another credential's log had a record of it, too
		return nil
	}
	l.draw(next.Host[:])
	if err := l.setHead(next); err != nil {
		return err
	}
	l.config.OnEvent(Event{Kind: Renamed})
	return nil
}
