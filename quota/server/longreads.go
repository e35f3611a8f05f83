package server

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"

	"quotad/quota/api"
)

// turnTime is how long a read of a whole log waits for its turn.
const turnTime = 5 * time.Second

// longReads lets each user read one whole log at a time, and all together keep half
// of the processors busy with it: the other half is for decisions.
type longReads struct {
	slots chan struct{} // one taken by each read

	mu    sync.Mutex // guards users
	users map[int]*turn
}

// A turn is taken by the one read of a user that goes on.
type turn struct {
	taken chan struct{} // of capacity 1
	reads int           // of the user, those that wait included; guarded by longReads
}

func newLongReads() *longReads {
	return &longReads{slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), users: make(map[int]*turn)}
}

// enter waits until a user may read, and returns what ends the read, or why it may
// not be before ctx ends.
func (l *longReads) enter(ctx context.Context, uid int) (leave func(), problem *api.Problem) {
	t := l.join(uid)
	if !take(ctx, t.taken) {
		l.quit(uid)
		return nil, api.NewProblem(api.Busy, "user %s reads another log: one at a time", userName(uid))
	}
	if !take(ctx, l.slots) {
		<-t.taken
		l.quit(uid)
		return nil, api.NewProblem(api.Busy, "others read whole logs: no more of that at once")
	}
	return func() {
		<-l.slots
		<-t.taken
		l.quit(uid)
	}, nil
}

func take(ctx context.Context, place chan<- struct{}) bool {
	select {
	case place <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l *longReads) join(uid int) *turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.users[uid]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		l.users[uid] = t
	}
	t.reads++
	return t
}

func (l *longReads) quit(uid int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users[uid].reads--; l.users[uid].reads == 0 {
		delete(l.users, uid)
	}
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
