package regions

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Region names one part of a job's work, "US"; unique within its job. It is any text of 1 to 128 bytes that can be
// printed, but for "." and "..", and does not begin or end with a space.
type Region string

// None is the only region of a job without regions. Its passes get no QUOTAD_REGION.
const None Region = "-"

// Before returns what stands before a line about a region: "US: ", and nothing of None.
func (r Region) Before() string {
	if r == None {
		return ""
	}
	return string(r) + ": "
}

const maxText = 128

// Check returns what is wrong with the text of a region, or nil.
func (r Region) Check() error {
	text := string(r)
	notPrinted := func(c rune) bool { return !unicode.IsPrint(c) }
	switch {
	case text == "" || len(text) > maxText:
		return fmt.Errorf("a region has 1 to %d bytes, not %d: %.40q", maxText, len(text), text)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, notPrinted):
		return fmt.Errorf("a region is text that can be printed: %q", text)
	case strings.TrimSpace(text) != text:
		return fmt.Errorf("a region does not begin or end with a space: %q", text)
	case text == "." || text == "..":
		return fmt.Errorf("%q means a directory: a region needs another name", text)
	}
	return nil
}

// Check returns what is wrong with a job's regions, or nil: there is at least
// one, each is text that may name one, and no two are alike.
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
