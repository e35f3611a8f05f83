// Package regions holds what a scheduler knows of a job's regions: the ring they form, the
// cursor at which the next run begins, and the offsets at which passes start (ring.go). All of
// that is arithmetic on values.
package regions
