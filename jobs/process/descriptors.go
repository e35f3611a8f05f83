package process

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// KeepDescriptors has this process keep to itself what it was given open: from now on no command inherits a
// descriptor beyond the first three. What Go itself opens, none does anyway.
func KeepDescriptors() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("cannot list the open descriptors: %w", err)
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > syscall.Stderr {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}
