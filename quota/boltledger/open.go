package boltledger

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// lockWait is how long a file that another process uses is waited for.
const lockWait = 200 * time.Millisecond

// The file's root has a bucket for each group of clients, and this one, which no group can be called.
var (
	headBucket = []byte("\x00quotad")
	versionKey = []byte("version")
)

// smallest is the size of a file without content: four pages of the smallest size.
const smallest = 4 * 4096

// openBolt opens a file, which errors call by a name. One that bbolt does not take for one of its own
// is a fault.
func openBolt(path, name string, options *bbolt.Options) (*bbolt.DB, error) {
	options.Timeout = lockWait
	db, err := bbolt.Open(path, 0o600, options)
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("cannot open %s: another process uses it", name)
	case errors.Is(err, bolterrors.ErrInvalid) || errors.Is(err, bolterrors.ErrChecksum) || errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, &faultError{err}
	case err != nil:
		return nil, fmt.Errorf("cannot open %s: %w", name, err)
	}
	return db, nil
}

// A faultError is bbolt's panic about a damaged file, or the kernel's fault in one that ends too
// soon.
type faultError struct{ cause any }

func (e *faultError) Error() string { return fmt.Sprint(e.cause) }

// guard calls f and returns a fault as an error. It lets any other panic of f through.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if what := recover(); isFault(what) {
			err = &faultError{what}
		} else if what != nil {
			panic(what)
		}
	}()
	return f()
}

// isFault reports whether a panic, which its caller has just recovered, is the kernel's or bbolt's.
func isFault(what any) bool {
	if _, atAddress := what.(interface{ Addr() uintptr }); what == nil || atAddress {
		return atAddress
	}
	var callers [16]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	frame, more := frames.Next()
	for more && strings.HasPrefix(frame.Function, "runtime.") {
		frame, more = frames.Next()
	}
	return strings.HasPrefix(frame.Function, "go.etcd.io/bbolt")
}
