package api

// settleRequest is the body of POST /v1/grants/{id}/settle.
type settleRequest struct {
	Units int64 `json:"units"`
}
