package server_test

import (
	"flag"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"quotad/jobs/process/processtest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

func TestMain(m *testing.M) { os.Exit(processtest.Tests(m.Run).Run()) }

// A panic of a route that changes something ends the process: it may hold locks, and have changed half of it. One of a
// route that reads ends its connection.
func TestAPanicOfARoute(t *testing.T) {
	if access := server.Access(flag.Arg(0)); access != "" {
		s := servertest.Start(t, func(c *server.Config) {
			c.AdminGroup = servertest.OwnGroup(t)
			c.Routes = append(c.Routes, server.Route{Method: "POST", Path: "/v1/panic", Access: access, Does: "panic",
				Handle: func(http.ResponseWriter, *http.Request, *server.Session) error { panic("a mistake in quotad") }})
		})
		s.Client("").Do(t.Context(), "POST", "/v1/panic", nil, nil)
		t.Skip("the process lives on")
	}
	for _, access := range []server.Access{server.Read, server.Spend, server.Operate} {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestAPanicOfARoute$", string(access))
		c.WaitDelay = time.Second
		out, err := c.CombinedOutput()
		lives := strings.Contains(string(out), "the process lives on")
		if want := access == server.Read; lives != want || (err == nil) != want || !strings.Contains(string(out), "a mistake in quotad") {
			t.Errorf("%s: %v: %s", access, err, out)
		}
	}
}
