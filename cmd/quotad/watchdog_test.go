package main

import (
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"quotad/quota/api"
)

// Whoever answers lives, whatever the answer is; whoever only listens does not.
func TestAnswers(t *testing.T) {
	dir := shortDir(t)
	listen := func(name string) (net.Listener, *api.Client) {
		t.Helper()
		path := filepath.Join(dir, name)
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		return listener, &api.Client{Socket: path}
	}
	serve := func(name string, status int) *api.Client {
		listener, client := listen(name)
		go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		return client
	}
	_, deaf := listen("deaf")
	for _, test := range []struct {
		name   string
		client *api.Client
		lives  bool
	}{
		{"it answers", serve("good", http.StatusOK), true},
		{"it refuses", serve("crowded", http.StatusServiceUnavailable), true},
		{"it listens only", deaf, false},
		{"nobody is there", &api.Client{Socket: filepath.Join(dir, "nobody")}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := answers(test.client, 500*time.Millisecond); (err == nil) != test.lives {
				t.Errorf("got %v, want that it lives: %v", err, test.lives)
			}
		})
	}
}
