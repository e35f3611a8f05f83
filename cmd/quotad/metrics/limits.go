package metrics

import (
	"context"
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"quotad/quota"
	"quotad/quota/upstream"
)

// WatchLimits exposes the state of the service's limits and of its ledger. A scrape leaves out what the ledger does not answer in time.
func (m *Metrics) WatchLimits(service *quota.Service, observer *upstream.Observer) {
	m.service = service
	l := &collector{}
	units := l.desc("quotad_limit_units", "Units that the limit has in its window.", "credential", "limit")
	reserve := l.desc("quotad_limit_reserve_units", "Units of the limit that jobs may not touch.", "credential", "limit")
	used := l.desc("quotad_limit_used_units", "Units that are debited in the limit's window.", "credential", "limit")
	remaining := l.desc("quotad_limit_remaining_units", "Units that jobs may still spend: units less reserve less used; +Inf of a limit that is not enforced.", "credential", "limit")
	closed := l.desc("quotad_limit_closed_until_seconds", "When the limit opens, which the upstream or an operator closed, in seconds since 1970; absent while it is open.", "credential", "limit")
	drift := l.desc("quotad_limit_drift_units", "Units that are counted here, less those that the upstream counts, as it last said; absent where it never did.", "credential", "limit")
	up := l.desc("quotad_ledger_up", "1 while the ledger decides, else 0.", "backend")
	l.collect = func(out chan<- prometheus.Metric) {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
		defer cancel()
		health := service.Health(ctx)
		out <- gauge(up, boolValue(health.Reachable), health.Backend)
		for _, c := range service.Credentials() {
			usage, err := service.Usage(ctx, c.Name)
			for _, limit := range c.Limits {
				out <- gauge(reserve, float64(limit.Reserve), c.Name, limit.Name)
				out <- gauge(units, float64(limit.Units), c.Name, limit.Name)
			}
			if err != nil {
				continue
			}
			counts := observer.Counts(c.Name)
			for _, limit := range usage.Limits {
				out <- gauge(used, float64(limit.Used), c.Name, limit.Name)
				left := math.Inf(1)
				if !limit.DryRun {
					left = float64(limit.Remaining())
				}
				out <- gauge(remaining, left, c.Name, limit.Name)
				if !limit.Closed.IsZero() {
					out <- gauge(closed, float64(limit.Closed.Until.UnixMilli())/1000, c.Name, limit.Name)
				}
				if count, said := counts[limit.Name]; said && count.Theirs.Known {
					out <- gauge(drift, float64(count.Ours-count.Theirs.Units), c.Name, limit.Name)
				}
			}
		}
	}
	m.registry.MustRegister(l)
}
