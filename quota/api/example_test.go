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

// A job asks before each call upstream, settles one that cost less, and ends with exit code 75 when a call is denied.
// Inside a pass FromEnv returns the client, and the credential may be left out.
func ExampleClient() {
	socket, stop := exampleDaemon()
	defer stop()
	client, ctx := &api.Client{Socket: socket}, context.Background()
	for {
		d, err := client.Acquire(ctx, api.AcquireRequest{Credential: "youtube", Operation: "search.list"})
		if err != nil {
			log.Fatal(err, api.Hint(err))
		}
		if !d.Granted {
			fmt.Println("denied by limit", d.Limit, "until", d.RetryAt.Format(time.DateTime))
			return // in a pass: os.Exit(75), EX_TEMPFAIL; the next run goes on at this region
		}
		settled, err := client.Settle(ctx, d.GrantID, 80) // Release, if it was never sent
		fmt.Println("granted", d.Units, "units, then", settled.Remaining, "left", err)
	}
	// Output:
	// granted 100 units, then 170 left <nil>
	// granted 100 units, then 90 left <nil>
	// denied by limit daily until 2026-11-22 09:00:00
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
	s := server.New(server.Config{Service: service})
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
