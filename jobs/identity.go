package jobs

// An Identity says which process it was, surely enough that another one that
// was given the same number later is never taken for it. It holds what a
// daemon that was killed must have written down, so that the next one can end
// what it left running.
type Identity struct {
	BootID string // the kernel's boot during which it was started
	PID    int    // its number, and that of its group and its session; 0: not known
	Start  uint64 // when it was started, in the kernel's clock ticks since boot; 0: not known

	// Marks are the entries of its environment that no other pass has: what
	// descends from it is known by them, wherever it went.
	Marks  []string
	Cgroup string // the directory of the cgroup made for it; empty: none
}
