package server

import (
	"context"
	"net/http"
	"time"

	"quotad/quota/api"
)

// slotTime is how long a read of a whole log waits for a slot.
const slotTime = 5 * time.Second

// longReads holds one for each read of a whole log that is under way. Together they keep half of the
// processors busy: the other half is for decisions.
type longReads chan struct{}

// enter waits until there is room for a read. It returns the function that ends the read, or
// a problem if ctx ends first.
func (l longReads) enter(ctx context.Context) (leave func(), err error) {
	select {
	case l <- struct{}{}:
		return func() { <-l }, nil
	case <-ctx.Done():
		return nil, api.NewProblem(api.Busy, "other whole logs are being read: no more of that at once")
	}
}

// LongRead makes a handler that may read a whole log wait for a slot, five seconds at most, and gives
// it more time.
func LongRead(handle Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request, c *Session) error {
		control := http.NewResponseController(w)
		deadline := time.Now().Add(slotTime + walkTime)
		control.SetReadDeadline(deadline)
		control.SetWriteDeadline(deadline.Add(writeTimeout))
		ctx, cancel := context.WithTimeout(r.Context(), slotTime)
		defer cancel()
		leave, err := c.server.longReads.enter(ctx)
		if err != nil {
			return err
		}
		defer leave()
		return handle(w, r, c)
	}
}
