package server

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// slotTime is how long a read of a whole log waits for a slot.
const slotTime = 5 * time.Second

// maxFollows is how many logs one user may follow at once: the daemon reads each entry
// once for each follower.
const maxFollows = 16

// longReads admits reads of logs. Each user reads one whole log at a time and follows
// at most maxFollows. All users together keep half of the processors busy with whole
// logs: the other half is for decisions.
type longReads struct {
	slots chan struct{} // holds one for each read

	mu    sync.Mutex // guards users
	users map[int]*reader
}

// A reader is a user who reads or follows logs.
type reader struct {
	slot    chan struct{} // holds one while a read of the user is under way
	follows chan struct{} // holds one for each log that the user follows
}

func newLongReads() *longReads {
	return &longReads{slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), users: make(map[int]*reader)}
}

func (l *longReads) user(uid int) *reader {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users[uid] == nil {
		l.users[uid] = &reader{slot: make(chan struct{}, 1), follows: make(chan struct{}, maxFollows)}
	}
	return l.users[uid]
}

// enter waits until a user may read. It returns the function that ends the read, or
// a problem if ctx ends first.
func (l *longReads) enter(ctx context.Context, uid int) (leave func(), err error) {
	r := l.user(uid)
	if !occupy(ctx, r.slot) {
		return nil, api.NewProblem(api.Busy, "user %s reads another log: one at a time", userName(uid))
	}
	if !occupy(ctx, l.slots) {
		<-r.slot
		return nil, api.NewProblem(api.Busy, "others read whole logs: no more of that at once")
	}
	return func() {
		<-l.slots
		<-r.slot
	}, nil
}

func occupy(ctx context.Context, slots chan<- struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// follow admits one more stream of a user, and returns the function that ends it.
func (l *longReads) follow(uid int) (leave func(), err error) {
	r := l.user(uid)
	select {
	case r.follows <- struct{}{}:
		return func() { <-r.follows }, nil
	default:
		return nil, api.NewProblem(api.TooManyConnections, "user %s follows %s, the most at once", userName(uid), quota.Count(maxFollows, "log", "logs"))
	}
}

// LongRead makes a handler that may read a whole log wait for a slot, and gives it more time.
// Each user has one such read at a time, and waits at most five seconds for it.
func LongRead(handle Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request, c *Session) error {
		control := http.NewResponseController(w)
		deadline := time.Now().Add(slotTime + walkTime)
		control.SetReadDeadline(deadline)
		control.SetWriteDeadline(deadline.Add(writeTimeout))
		ctx, cancel := context.WithTimeout(r.Context(), slotTime)
		defer cancel()
		leave, err := c.server.longReads.enter(ctx, c.Caller.UID)
		if err != nil {
			return err
		}
		defer leave()
		return handle(w, r, c)
	}
}
