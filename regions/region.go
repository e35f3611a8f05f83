// Package regions holds what a job's regions are to a scheduler: the ring they
// form, the cursor that says where the next run begins, and the offsets at
// which their passes start.
package regions

// A Region names one part of a job's work, "US"; unique within its job. It is
// made of letters, digits, '_' and '-'.
type Region string
