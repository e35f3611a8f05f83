// Package regions holds what a job's regions are to a scheduler: the ring they form
// (ring.go), the cursor that says where the next run begins, the offsets at which their
// passes start (stagger.go), and the small files in which such state survives (store.go).
//
// All but the store is arithmetic on values. A [Store] keeps each document in a JSON file
// of its own; WriteFile replaces a file durably, and OpenStore removes what an
// interrupted one left. There are no locks: one process owns a store's directory.
package regions
