// Limiters serves one handler behind a library that limits its clients. It is built in a
// module of its own, so that the libraries are never part of quotad's.
//
//	limiters KIND SOCKET REDIS-SOCKET LIMIT WINDOW
package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/didip/tollbooth/v7"
	tollboothlimiter "github.com/didip/tollbooth/v7/limiter"
	"github.com/go-chi/httprate"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

var kinds = map[string]func(next http.Handler, client *redis.Client, limit int, window time.Duration) (http.Handler, error){
	"none":       none,
	"ulule":      ulule,
	"redis_rate": redisRate,
	"httprate":   rateInMemory,
	"tollbooth":  tollboothInMemory,
}

func main() {
	limit, err := strconv.Atoi(os.Args[4])
	check(err)
	window, err := time.ParseDuration(os.Args[5])
	check(err)
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: os.Args[3]})
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello\n") })
	handler, err := kinds[os.Args[1]](next, client, limit, window)
	check(err)
	listener, err := net.Listen("unix", os.Args[2])
	check(err)
	check(http.Serve(listener, handler))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func subject(r *http.Request) string { return r.FormValue("subject") }

func none(next http.Handler, _ *redis.Client, _ int, _ time.Duration) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		subject(r)
		next.ServeHTTP(w, r)
	}), nil
}

func ulule(next http.Handler, client *redis.Client, limit int, window time.Duration) (http.Handler, error) {
	store, err := ululeredis.NewStore(client)
	if err != nil {
		return nil, err
	}
	limiter := limiter.New(store, limiter.Rate{Period: window, Limit: int64(limit)})
	return stdlib.NewMiddleware(limiter, stdlib.WithKeyGetter(subject)).Handler(next), nil
}

func redisRate(next http.Handler, client *redis.Client, limit int, window time.Duration) (http.Handler, error) {
	limiter, rate := redis_rate.NewLimiter(client), redis_rate.Limit{Rate: limit, Burst: limit, Period: window}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := limiter.Allow(r.Context(), subject(r), rate)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case answer.Allowed == 0:
			http.Error(w, "too many", http.StatusTooManyRequests)
		default:
			w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(answer.Remaining))
			next.ServeHTTP(w, r)
		}
	}), nil
}

func rateInMemory(next http.Handler, _ *redis.Client, limit int, window time.Duration) (http.Handler, error) {
	key := func(r *http.Request) (string, error) { return subject(r), nil }
	return httprate.LimitBy(limit, window, key)(next), nil
}

func tollboothInMemory(next http.Handler, _ *redis.Client, limit int, window time.Duration) (http.Handler, error) {
	limiter := tollbooth.NewLimiter(float64(limit)/window.Seconds(), &tollboothlimiter.ExpirableOptions{DefaultExpirationTTL: time.Hour})
	limiter.SetBurst(limit)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused := tollbooth.LimitByKeys(limiter, []string{subject(r)}); refused != nil {
			http.Error(w, refused.Message, refused.StatusCode)
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}
