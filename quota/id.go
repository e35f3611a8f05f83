package quota

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// An ID names an entry of a log: the ledger's clock in milliseconds since the
// Unix epoch, and a number that distinguishes entries of one millisecond. IDs of
// one log only grow.
type ID struct {
	Ms  int64
	Seq int64
}

// IsZero reports whether the id names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// Time is the instant of the ledger's clock at which the entry was written.
func (id ID) Time() time.Time { return time.UnixMilli(id.Ms).UTC() }

// Less orders ids by time.
func (id ID) Less(other ID) bool { return id.Compare(other) < 0 }

// Compare is below zero where an id is older than another one, and 0 where it is the same.
func (id ID) Compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Ms, other.Ms), cmp.Compare(id.Seq, other.Seq))
}

// String returns "1795260896123-0".
func (id ID) String() string { return id.format(10) }

func (id ID) format(base int) string {
	b := strconv.AppendInt(make([]byte, 0, 2*20+1), id.Ms, base)
	return string(strconv.AppendInt(append(b, '-'), id.Seq, base))
}

// ParseID reads what String wrote.
func ParseID(s string) (ID, error) {
	id, ok := parseID(s, 10)
	if !ok {
		return ID{}, fmt.Errorf("not an entry id: %.40q", s)
	}
	return id, nil
}

// parseID reads what format wrote.
func parseID(s string, base int) (id ID, ok bool) {
	ms, seq, ok := strings.Cut(s, "-")
	var err1, err2 error
	id.Ms, err1 = strconv.ParseInt(ms, base, 64)
	id.Seq, err2 = strconv.ParseInt(seq, base, 64)
	return id, ok && err1 == nil && err2 == nil && id.Ms >= 0 && id.Seq >= 0 && id.format(base) == s
}

// GrantID is the public name of the grant that wrote entry id: it carries its
// credential, so that a caller who settles needs nothing else.
func GrantID(credential string, id ID) string { return credential + ":" + id.format(grantBase) }

// grantBase keeps the names of grants short.
const grantBase = 36

// ParseGrantID returns the parts of a grant id.
func ParseGrantID(s string) (credential string, id ID, err error) {
	credential, rest, ok := strings.Cut(s, ":")
	if ok && CheckName(credential) == nil {
		if id, ok = parseID(rest, grantBase); ok {
			return credential, id, nil
		}
	}
	return "", ID{}, fmt.Errorf("not a grant id: %.80q", s)
}
