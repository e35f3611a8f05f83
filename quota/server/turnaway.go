package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"quotad/quota/api"
	"time"
)

// TurnAway answers those who wait at a listener with a problem and closes it. It
// returns when nobody new has come for a moment, after two seconds at the latest.
func TurnAway(l net.Listener, why *api.Problem) error {
	const moment, most = 100 * time.Millisecond, 2 * time.Second
	limiter, came := newLimiter(Config{}), make(chan struct{}, 1)
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c := connectionOf(r); c != nil {
				c.begin(w, r)
			}
			writeProblem(w, why)
		}),
		ConnContext: limiter.context,
		ConnState: func(conn net.Conn, state http.ConnState) {
			limiter.state(conn, state)
			select {
			case came <- struct{}{}:
			default:
			}
		},
		ReadTimeout:    most,
		WriteTimeout:   most,
		MaxHeaderBytes: maxHeader,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(limiter.listen(l, nil)) }()
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	for calm := time.NewTimer(moment); ; calm.Reset(moment) {
		select {
		case <-came:
			continue
		case <-calm.C:
		case <-ctx.Done():
		}
		break
	}
	limiter.drain(ctx)
	server.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) && !limiter.isClosed(err) {
		return err
	}
	return nil
}
