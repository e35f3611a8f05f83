package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"quotad/cmd/quotad/trouble"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/slidinglog"
)

// Violations are the invariants that did not hold, by credential. Each has a file in the state directory, which helps to
// find the cause. While the file is there, the violation is a trouble, and, if the configuration says so, the credential is
// shut, through restarts.
type violations struct {
	mu        sync.Mutex        // held while a credential is shut or opened, and while its file is read for that
	unwritten map[string][]byte // files that cannot be written yet
}

// violationLines returns the content of a file.
func violationLines(v slidinglog.Violation) []byte {
	var lines bytes.Buffer
	to := json.NewEncoder(&lines) // nothing in it can fail
	to.Encode(map[string]any{
		"version": api.BuildVersion(), "credential": v.Credential, "invariant": v.Invariant, "says": v.Says, "at": v.At.UTC(),
		"place": v.Record.At.String(), "record": hex.EncodeToString(v.Record.Body),
	})
	for _, e := range v.Entries {
		if g, ok := e.Grant(); ok {
			g.Key = hex.EncodeToString([]byte(g.Key))
			e.Body = g
		}
		to.Encode(map[string]any{"at": e.ID.Time(), "kind": e.Kind(), "entry": e})
	}
	return lines.Bytes()
}

// recordViolation is a sink of events. Of the violations of a credential it keeps the first one.
func (d *daemon) recordViolation(event any) {
	v, is := event.(slidinglog.Violation)
	if !is || d.violation(v.Credential) != nil {
		return
	}
	d.violations.mu.Lock()
	d.violations.unwritten[v.Credential] = violationLines(v)
	d.violations.mu.Unlock()
	d.violation(v.Credential)
	d.urgent.Store(true)
	d.statusChanged()
}

// violation returns the violation of a credential, nil if there is none. The credential is shut if there is one, and
// grants again if there is none any more.
func (d *daemon) violation(credential string) *trouble.Violation {
	d.violations.mu.Lock()
	defer d.violations.mu.Unlock()
	found := &trouble.Violation{File: d.statePath("violation-" + credential + ".jsonl"), Shuts: d.config.Ledger.CloseViolated}
	content, unwritten := d.violations.unwritten[credential]
	if unwritten {
		if err := replaceFile(found.File, content); err != nil {
			found.WriteErr = err.Error()
		} else {
			delete(d.violations.unwritten, credential)
		}
	} else {
		var err error
		if content, err = os.ReadFile(found.File); errors.Is(err, fs.ErrNotExist) {
			d.ledger.Shut(credential, nil)
			return nil
		}
	}
	var head struct{ Invariant, Says string }
	line, _, _ := bytes.Cut(content, []byte("\n"))
	if found.Says = "its file cannot be read"; json.Unmarshal(line, &head) == nil {
		found.Says = head.Invariant + ": " + head.Says
	}
	if found.Shuts {
		d.ledger.Shut(credential, fmt.Errorf("%w: credential %q is closed, because an invariant of its log does not hold (%s): "+
			"report that with %s, and move the file away to open the credential", quota.ErrUnusable, credential, found.Says, found.File))
	}
	return found
}
