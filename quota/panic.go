package quota

import (
	"fmt"
	"runtime/debug"
)

// EndOnPanic ends the process if its caller panics, even in a handler of net/http, which recovers that. It is for
// code that changes what locks guard: after a panic in the middle, nothing would release the locks, and what they
// guard could be wrong. The next start reads that from disk. Call it by defer.
func EndOnPanic() {
	if what := recover(); what != nil {
		go panic(fmt.Sprintf("%v\n\n%s", what, debug.Stack()))
		select {}
	}
}
