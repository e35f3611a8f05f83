package boltledger

import (
	"errors"
	"fmt"
	"os"
)

// ErrDamaged: the file is not a whole ledger. It stays as it is.
var ErrDamaged = errors.New("is damaged")

func damaged(path, how string) error {
	return fmt.Errorf("ledger %q %w: %s; restore it from a backup, or move it away and start once with --accept-new-ledger to begin with an empty log (every limit then counts from zero)", path, ErrDamaged, how)
}

// Move moves a ledger with all of its files. No process may have it open.
func Move(from, to string) error {
	var wrong error
	for _, part := range []string{"", ".tail0", ".tail1", ".position"} {
		if err := os.Rename(from+part, to+part); !errors.Is(err, os.ErrNotExist) {
			wrong = errors.Join(wrong, err)
		}
	}
	return wrong
}
