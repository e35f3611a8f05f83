package server

import (
	"context"
	"net/http"
	"quotad/quota/api"
)

// A Route is one line of the API's surface.
type Route struct {
	Method string
	Path   string // a pattern of http.ServeMux: "/v1/grants/{id}"
	Access Access
	Does   string // in one line, for GET /v1; behind a semicolon the fields that it takes
	Handle Handler
}

// Access is the class of callers that a route is for.
//
//	           run token      may connect   root, admin group
//	Read       yes            yes           yes
//	Spend      yes            yes           yes, and the reserve
//	Correct    its own run's  one's own     yes
//	Operate    no             no            yes
//
// A request with a run token has the token's rights and no others, whoever
// sends it. The user that jobs run as has, without one, those of Read.
type Access string

// The classes of access.
const (
	Read    Access = "read"
	Spend   Access = "spend"
	Correct Access = "correct"
	Operate Access = "operate"
)

// A Handler answers a call that its route's access admitted. It may write any
// answer; most are made by Handle. Its context ends when the caller goes away, and
// after ten seconds nothing more can be written, unless it sets other deadlines by
// http.ResponseController.
type Handler func(w http.ResponseWriter, r *http.Request, c *Session)

// Handle makes a handler of a function: the request's fields are read into In, a
// struct with the tags of encoding/json, and Out is written as JSON with status 200.
// A field that a request leaves out is as in byDefault, if that is given. An error
// that is a *Problem is written as such, those of a ledger as 503, any other as 500.
func Handle[In, Out any](do func(context.Context, *Session, In) (Out, error), byDefault ...In) Handler {
	return func(w http.ResponseWriter, r *http.Request, c *Session) {
		var in In
		if len(byDefault) > 0 {
			in = byDefault[0]
		}
		if problem := decode(r, &in); problem != nil {
			writeProblem(w, problem)
			return
		}
		out, err := do(r.Context(), c, in)
		if err != nil {
			writeProblem(w, api.ProblemFrom(err))
			return
		}
		writeJSON(w, http.StatusOK, out)
	}
}

// None is the In of a route that takes no fields.
type None struct{}
