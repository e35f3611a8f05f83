package jobs

import "slices"

// Spending returns the ids of the runs under way that spend from a credential,
// oldest first, also those of jobs that are gone or spend from another one by now.
func (r *Runner) Spending(credential string) []string {
	var runs []string
	for _, w := range r.underWay() {
		if w.job.Credential == credential {
			runs = append(runs, w.id)
		}
	}
	slices.Sort(runs)
	return runs
}
