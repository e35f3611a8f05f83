package api_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// A job asks before each call upstream. Inside a pass FromEnv returns the client, and
// the credential may be left out.
func ExampleClient_Acquire() {
	socket, stop := exampleDaemon()
	defer stop()
	client := &api.Client{Socket: socket}
	d, err := client.Acquire(context.Background(), api.AcquireRequest{Credential: "youtube", Operation: "search.list"})
	switch {
	case err != nil:
		log.Fatal(err, api.Hint(err))
	case !d.Granted:
		os.Exit(75) // EX_TEMPFAIL: the next run goes on at this region
	}
	fmt.Println("granted", d.Units, "units,", d.Remaining, "left")
	// Output:
	// granted 100 units, 150 left
}

// A job of quotad finds the socket and the token of its pass in its environment. The token names the credential,
// and the daemon knows job, region and run by it.
func ExampleFromEnv() {
	socket, stop := exampleDaemon()
	defer stop()
	os.Setenv(api.SocketEnv, socket) // quotad does that for each pass
	os.Setenv(api.TokenEnv, exampleToken)
	defer os.Unsetenv(api.SocketEnv)
	defer os.Unsetenv(api.TokenEnv)

	client, ctx := api.FromEnv(), context.Background()
	for page := 1; ; page++ {
		d, err := client.Acquire(ctx, api.AcquireRequest{Operation: "search.list"})
		if err != nil {
			log.Fatal(err, api.Hint(err))
		}
		if !d.Granted {
			fmt.Println("page", page, "must wait")
			break // os.Exit(75), and the next run begins with this region
		}
		fmt.Println("page", page, "may be fetched")
	}
	entries, err := client.Log(ctx, api.LogQuery{Credential: "youtube", Since: "24h"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("spent by", entries.Entries[0].By, "for", entries.Entries[0].Region)
	// Output:
	// page 1 may be fetched
	// page 2 may be fetched
	// page 3 must wait
	// spent by trending for US
}

// A denial says when the same request would be granted, if nothing else happened. A
// pass does not wait for it: it ends with exit code 75.
func ExampleClient_Acquire_denied() {
	socket, stop := exampleDaemon()
	defer stop()
	client := &api.Client{Socket: socket}
	for range 3 {
		d, err := client.Acquire(context.Background(), api.AcquireRequest{Credential: "youtube", Operation: "search.list"})
		if err != nil {
			log.Fatal(err)
		}
		if !d.Granted {
			fmt.Println("denied by limit", d.Limit, "until", d.RetryAt.Format(time.DateTime))
		}
	}
	// Output:
	// denied by limit daily until 2026-11-22 09:00:00
}

// An error is no denial: it is not known what is left, or the request is wrong.
func ExampleProblem() {
	socket, stop := exampleDaemon()
	defer stop()
	client := &api.Client{Socket: socket}
	_, err := client.Acquire(context.Background(), api.AcquireRequest{Credential: "youtube", Operation: "search.lst"})
	var refused *api.Problem
	switch {
	case errors.Is(err, api.ErrUnreachable), errors.Is(err, api.ErrLedgerUnavailable):
		fmt.Println("nobody can tell: ask again, with the same request id")
	case errors.As(err, &refused):
		fmt.Println(refused.Status, refused.Reason)
		fmt.Println(refused.Detail)
	}
	// Output:
	// 404 unknown_operation
	// operation "search.lst" is not listed for credential "youtube", but "search.list" is
}

// A request id names one upstream call. If the reply was lost, ask again with the same id, even from another
// process: nothing is debited twice.
func ExampleClient_Acquire_lostReply() {
	socket, stop := exampleDaemon()
	defer stop()
	client := &api.Client{Socket: socket}
	call := api.AcquireRequest{Credential: "youtube", Operation: "search.list", RequestID: "2026-11-21 US page 3"}
	for range 2 {
		d, err := client.Acquire(context.Background(), call)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("replayed:", d.Replayed, "left:", d.Remaining)
	}
	// Output:
	// replayed: false left: 150
	// replayed: true left: 150
}

// Settle a call that cost less, or more. Release one that was never sent.
func ExampleClient_Settle() {
	socket, stop := exampleDaemon()
	defer stop()
	client, ctx := &api.Client{Socket: socket}, context.Background()
	d, err := client.Acquire(ctx, api.AcquireRequest{Credential: "youtube", Operation: "search.list"})
	if err != nil || !d.Granted {
		log.Fatal(d, err)
	}
	settled, err := client.Settle(ctx, d.GrantID, 1)
	fmt.Println(settled.Remaining, err)
	released, err := client.Release(ctx, d.GrantID)
	fmt.Println(released.Remaining, err)
	// Output:
	// 249 <nil>
	// 250 <nil>
}

// The log says who spent what.
func ExampleClient_Log() {
	socket, stop := exampleDaemon()
	defer stop()
	client, ctx := &api.Client{Socket: socket}, context.Background()
	if _, err := client.Acquire(ctx, api.AcquireRequest{Credential: "youtube", Operation: "search.list", Count: 2}); err != nil {
		log.Fatal(err)
	}
	page, err := client.Log(ctx, api.LogQuery{Credential: "youtube", Since: "24h"})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range page.Entries {
		fmt.Println(e.At.Format(time.TimeOnly), e.Kind, e.Operation, "×", e.Count, e.Units, "units")
	}
	// Output:
	// 09:00:00 grant search.list × 2 200 units
}

// exampleToken is that of a pass of job trending, for region US.
const exampleToken = "0123456789abcdef"

// exampleDaemon serves a budget of 250 units a day.
func exampleDaemon() (socket string, stop func()) {
	clock := ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	service, err := quota.NewService(ledgertest.NewModel(clock.Now), []*quota.Credential{{
		Name:       "youtube",
		Limits:     []quota.Limit{{Name: "daily", Units: 250, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"search.list": {Every: 100}},
	}}, time.Second)
	if err != nil {
		log.Fatal(err)
	}
	passes := new(servertest.Tokens)
	passes.Issue(exampleToken, "trending", "US", "youtube")
	s, err := server.New(server.Config{Service: service, Tokens: passes})
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "q")
	if err != nil {
		log.Fatal(err)
	}
	socket = filepath.Join(dir, "quotad.sock")
	listener, err := server.Listen(socket)
	if err != nil {
		log.Fatal(err)
	}
	frontend, served := server.NewFrontend(server.FrontendConfig{Handler: s}), make(chan error, 1)
	go func() { served <- frontend.Serve(listener) }()
	return socket, func() {
		if err := errors.Join(frontend.Shutdown(context.Background()), <-served, os.RemoveAll(dir)); err != nil {
			log.Fatal(err)
		}
	}
}
