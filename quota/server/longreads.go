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

// turnTime is how long a read of a whole log waits for its turn.
const turnTime = 5 * time.Second

// maxFollows is how many logs one user may follow at once: the daemon reads each entry
// once for each of them.
const maxFollows = 16

// longReads admits reads of logs. Each user reads one whole log at a time and follows
// at most maxFollows. All users together keep half of the processors busy with whole
// logs: the other half is for decisions.
type longReads struct {
	slots chan struct{} // holds one for each read

	mu    sync.Mutex // guards users, and what they count
	users map[int]*reader
}

// A reader is a user who reads or follows logs.
type reader struct {
	turn    chan struct{} // holds one while a read of the user is under way
	reads   int           // those that wait included
	follows int
}

func newLongReads() *longReads {
	return &longReads{slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), users: make(map[int]*reader)}
}

// enter waits until a user may read. It returns the function that ends the read, or
// the problem if ctx ends first.
func (l *longReads) enter(ctx context.Context, uid int) (leave func(), problem *api.Problem) {
	r := l.count(uid, 1, 0)
	if !occupy(ctx, r.turn) {
		l.count(uid, -1, 0)
		return nil, api.NewProblem(api.Busy, "user %s reads another log: one at a time", userName(uid))
	}
	if !occupy(ctx, l.slots) {
		<-r.turn
		l.count(uid, -1, 0)
		return nil, api.NewProblem(api.Busy, "others read whole logs: no more of that at once")
	}
	return func() {
		<-l.slots
		<-r.turn
		l.count(uid, -1, 0)
	}, nil
}

// follow admits one more stream of a user, and returns the function that ends it.
func (l *longReads) follow(uid int) (leave func(), problem *api.Problem) {
	leave = func() { l.count(uid, 0, -1) }
	if l.count(uid, 0, 1).follows > maxFollows {
		leave()
		return nil, api.NewProblem(api.TooManyConnections, "user %s follows %s, the most at once", userName(uid), quota.Count(maxFollows, "log", "logs"))
	}
	return leave, nil
}

func occupy(ctx context.Context, place chan<- struct{}) bool {
	select {
	case place <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// count adds to what a user reads and follows, and returns the user as they are then.
func (l *longReads) count(uid, reads, follows int) reader {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.users[uid]
	if r == nil {
		r = &reader{turn: make(chan struct{}, 1)}
		l.users[uid] = r
	}
	r.reads, r.follows = r.reads+reads, r.follows+follows
	if r.reads == 0 && r.follows == 0 {
		delete(l.users, uid)
	}
	return *r
}

// LongRead gives a handler that may read a whole log its turn, and the time for it:
// each user has one such read at a time, and waits five seconds for it at most.
func LongRead(handle Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request, c *Session) {
		control := http.NewResponseController(w)
		deadline := time.Now().Add(turnTime + walkTime)
		control.SetReadDeadline(deadline)
		control.SetWriteDeadline(deadline.Add(writeTimeout))
		ctx, cancel := context.WithTimeout(r.Context(), turnTime)
		defer cancel()
		leave, problem := c.longReads.enter(ctx, c.Caller.UID)
		if problem != nil {
			writeProblem(w, problem)
			return
		}
		defer leave()
		handle(w, r, c)
	}
}
