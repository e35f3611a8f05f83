package server_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"quotad/quota/api"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// A connection that was refused is answered when the frontend passes requests to a server that decides.
func TestDoorChangesItsServer(t *testing.T) {
	h := servertest.Start(t, nil) // whose service the second server decides by
	listener, err := server.Listen(filepath.Join(servertest.ShortDir(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	frontend := server.NewFrontend(server.FrontendConfig{})
	retried := ""
	refusing, err := server.Refusing(server.NotServing{
		Problem: api.NewProblem(api.NotServing, "the port is taken"), Until: time.Now().Add(time.Hour),
	}, server.Config{Routes: []server.Route{server.ReloadRoute(func(by string) (api.Reloaded, error) {
		retried = by
		return api.Reloaded{}, api.NewProblem(api.NotServing, "it is taken still")
	})}})
	if err != nil {
		t.Fatal(err)
	}
	frontend.PassTo(refusing)
	served := make(chan error, 1)
	go func() { served <- frontend.Serve(listener) }()
	dial, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn := servertest.NewConn(t, dial)
	for _, path := range []string{"/readyz", "/v1/status", "/nowhere"} {
		r := conn.Call("GET", path, "")
		if r.Status != http.StatusServiceUnavailable || r.Text("reason") != "not_serving" || r.Text("detail") != "the port is taken" || len(r.Header.Get("Retry-After")) != 4 {
			t.Errorf("%s: %d %s, Retry-After %s", path, r.Status, r.Body, r.Header.Get("Retry-After"))
		}
	}
	if r := conn.Call("GET", "/healthz", ""); r.Status != http.StatusOK {
		t.Errorf("/healthz: %d %s", r.Status, r.Body)
	}
	if r := conn.Call("POST", "/v1/reload", ""); os.Getuid() == 0 && (r.Status != http.StatusServiceUnavailable || r.Text("detail") != "it is taken still" || retried == "") {
		t.Errorf("an operator's reload: %d %s, by %q", r.Status, r.Body, retried)
	}
	deciding, err := server.New(server.Config{Service: h.Service})
	if err != nil {
		t.Fatal(err)
	}
	frontend.PassTo(deciding)
	if r := conn.Call("GET", "/readyz", ""); r.Status != http.StatusOK {
		t.Errorf("/readyz of a server that decides: %d %s", r.Status, r.Body)
	}
	conn.Close()
	if err := frontend.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
