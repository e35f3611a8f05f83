package regions

import (
	"fmt"
	"strings"
)

// A Region names one part of a job's work, "US"; unique within its job. It has 1
// to 64 letters, digits, '_' or '-', and begins with a letter or digit.
type Region string

const (
	maxName      = 64
	alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
)

// Check returns what is wrong with the name of a region, or nil.
func (r Region) Check() error {
	name := string(r)
	if name == "" || len(name) > maxName {
		return fmt.Errorf("a region has 1 to %d characters: %q", maxName, name)
	}
	if strings.Trim(name, alphanumeric+"_-") != "" || !strings.Contains(alphanumeric, name[:1]) {
		return fmt.Errorf("a region is made of letters, digits, '_' and '-', and begins with a letter or digit: %q", name)
	}
	return nil
}

// Check returns what is wrong with a job's regions, or nil: there is at least
// one, each is well named, and no two are alike.
func Check(list []Region) error {
	if len(list) == 0 {
		return fmt.Errorf("at least one region is needed")
	}
	seen := make(map[Region]bool, len(list))
	for _, r := range list {
		if err := r.Check(); err != nil {
			return err
		}
		if seen[r] {
			return fmt.Errorf("region %q is listed twice", r)
		}
		seen[r] = true
	}
	return nil
}
