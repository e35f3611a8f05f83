package quota

import (
	"fmt"
	"strings"
)

// maxName bounds every name that reaches a ledger, a log line or a metric.
const maxName = 64

// CheckName returns an error unless name may name a credential, limit, job or
// region: 1 to 64 letters, digits, '_' or '-', beginning with a letter or digit.
func CheckName(name string) error {
	return check(name, "_-")
}

// CheckOperation returns an error unless name may name an operation: as
// CheckName, but '.', '/' and ':' may stand in it too ("videos.list").
func CheckOperation(name string) error {
	return check(name, "_-./:")
}

func check(name, punctuation string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("a name has 1 to %d characters: %q", maxName, name)
	}
	for i, r := range name {
		if alphanumeric(r) || i > 0 && strings.ContainsRune(punctuation, r) {
			continue
		}
		return fmt.Errorf("a name is made of letters, digits and any of %q, and begins with a letter or digit: %q", punctuation, name)
	}
	return nil
}

func alphanumeric(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}
