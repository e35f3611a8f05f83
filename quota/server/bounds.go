package server

import (
	"time"

	"quotad/quota/api"
)

// Bounds of what a client may cost: a slow or stuck one costs one connection,
// and that not for long.
const (
	readTimeout  = 5 * time.Second                               // a request, from its first byte to its last
	writeTimeout = 10 * time.Second                              // deciding and answering
	walkTime     = api.LongReadTimeout - turnTime - writeTimeout // for a handler that may read a whole log
	maxHeader    = 8 << 10
	maxPath      = 512 // bytes: no name has more than 64
	maxBody      = 64 << 10
	maxDrain     = 2 << 20 // of an oversized body, read on so that the connection stays usable
)

// Header values that never change; net/http only reads them.
var (
	typeJSON    = []string{"application/json"}
	typeProblem = []string{"application/problem+json"}
	typeLines   = []string{"application/x-ndjson"}
	retrySoon   = []string{"1"} // when the ledger may be back is not known
)
