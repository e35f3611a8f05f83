package server_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"

	"quotad/quota/api"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// An operator is told what a reload has changed, or why it changed nothing; nobody else may ask for one.
func TestReload(t *testing.T) {
	nobody := account(t, "nobody")
	want := api.Reloaded{File: "config.toml", Changed: "1 job, 1 limit changed"}
	var asked []string
	var fails error
	h := servertest.Start(t, func(c *server.Config) {
		c.Routes = []server.Route{server.ReloadRoute(func(by string) (api.Reloaded, error) {
			asked = append(asked, by)
			return want, fails
		})}
	})
	got, err := h.Client("").Reload(context.Background())
	if err != nil || got.File != want.File || got.Changed != want.Changed {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	fails = errors.New("config.toml:3: unknown key")
	var problem *api.Problem
	if _, err := h.Client("").Reload(context.Background()); !errors.As(err, &problem) || problem.Reason != api.Conflict || problem.Detail != fails.Error() {
		t.Errorf("got %v, want the reason in a problem of reason %s", err, api.Conflict)
	}
	if status := as(t, h, nobody, http.MethodPost, "/v1/reload", ""); status != http.StatusForbidden {
		t.Errorf("nobody is answered %d, want %d", status, http.StatusForbidden)
	}
	if want := []string{"@0", "@0"}; !slices.Equal(asked, want) {
		t.Errorf("asked by %q, want %q", asked, want)
	}
}
