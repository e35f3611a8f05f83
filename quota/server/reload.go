package server

import (
	"context"
	"net/http"
	"quotad/quota/api"
)

// ReloadRoute returns the route by which an operator has the daemon read its
// configuration again. The error of reload is the caller's to read: nothing has
// changed then.
func ReloadRoute(reload func(by string) (api.Reloaded, error)) Route {
	return Route{
		Method: http.MethodPost, Path: "/v1/reload", Access: Operate, Does: "read the configuration again",
		Handle: Handle(func(_ context.Context, c *Session, _ None) (api.Reloaded, error) {
			done, err := reload(c.Caller.By())
			if err != nil {
				return api.Reloaded{}, api.NewProblem(api.Conflict, "%v", err)
			}
			return done, nil
		}),
	}
}
