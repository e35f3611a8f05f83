package process

import (
	"context"
	"fmt"
	"strings"
	"time"

	"quotad/jobs"
)

// Identify returns what identifies a running process among all processes, also earlier and
// later ones: after an error as much as could be found out. The caller adds the marks and the
// cgroup.
func Identify(pid int) (jobs.Identity, error) {
	boot, err := bootID()
	p, unknown := readProcess(pid)
	if unknown != nil {
		err = fmt.Errorf("cannot identify process %d: %w", pid, unknown)
	}
	return jobs.Identity{BootID: boot, PID: pid, Start: p.start}, err
}

// EndLeftover ends what is left of a process that an earlier daemon started: TERM to it and
// to what descends from it, KILL after the grace. It reports whether anything was left. A
// process that only has the same number is not touched. If the first process is gone, and
// there is neither a mark nor a cgroup, nothing is touched. An identity without a PID goes by
// its marks.
//
// The error is the context's, if that ends the waiting, or says that something
// could not be ended.
func EndLeftover(ctx context.Context, id jobs.Identity, grace time.Duration) (ended bool, err error) {
	boot, err := bootID()
	if err != nil {
		return false, err
	}
	if boot != id.BootID {
		return false, nil
	}
	t := &tree{root: id, cgroup: cgroup(id.Cgroup)}
	defer t.cgroup.remove()
	if len(t.members()) == 0 {
		return false, nil
	}
	left, err := t.end(ctx, context.Background(), grace)
	if err != nil {
		return false, fmt.Errorf("cannot wait for the end of process %d: %w", id.PID, err)
	}
	if left > 0 {
		return false, fmt.Errorf("cannot end process %d: processes of it that quotad may not signal, or that are stuck in the kernel: %d", id.PID, left)
	}
	return true, nil
}

// marks returns the entries of an environment that together no other pass has.
// The token would do, too, but is a secret and must not be written down.
func marks(env []string) []string {
	var found []string
	for _, entry := range env {
		switch name, _, _ := strings.Cut(entry, "="); name {
		case "QUOTAD_RUN_ID", "QUOTAD_REGION":
			found = append(found, entry)
		}
	}
	if len(found) < 2 {
		return nil // a region alone is common to many
	}
	return found
}
