// Package regions holds what a scheduler knows of a job's regions: the ring they form, and the
// cursor at which the next run begins (ring.go). All of that is arithmetic on values.
package regions
