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

// An error is no denial: nobody knows what is left, or what was asked for cannot be.
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

// A request id names one upstream call. Whoever lost the reply asks again with the same
// id, even in another process, and nothing is debited twice.
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

// A call that cost less, or more, is settled; one that was never sent is given back.
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

// The log tells who spent what. FollowLog goes on with what is written next.
func ExampleClient_Log() {
	socket, stop := exampleDaemon()
	defer stop()
	client, ctx := &api.Client{Socket: socket}, context.Background()
	if _, err := client.Acquire(ctx, api.AcquireRequest{Credential: "youtube", Operation: "search.list", Count: 2}); err != nil {
		log.Fatal(err)
	}
	page, err := client.Log(ctx, "youtube", api.LogQuery{Since: "24h"})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range page.Entries {
		fmt.Println(e.At.Format(time.TimeOnly), e.Kind, e.Operation, "×", e.Count, e.Units, "units")
	}
	// Output:
	// 09:00:00 grant search.list × 2 200 units
}

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
	s, err := server.New(server.Config{Service: service})
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
	door, served := server.NewDoor(server.DoorConfig{}), make(chan error, 1)
	door.Lead(s)
	go func() { served <- door.Serve(listener) }()
	return socket, func() {
		if err := errors.Join(door.Shutdown(context.Background()), <-served, os.RemoveAll(dir)); err != nil {
			log.Fatal(err)
		}
	}
}
