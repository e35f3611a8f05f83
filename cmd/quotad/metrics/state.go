package metrics

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/upstream"
)

// Sources are asked at each scrape.
type Sources struct {
	Service  *quota.Service
	Observer *upstream.Observer
	Troubles func(context.Context) (trouble.State, []trouble.Trouble)
}

// scrapeTime is how long a scrape waits for the ledger, all credentials together.
const scrapeTime = 2 * time.Second

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("quotad_"+name, help, labels, nil)
}

// What the collector exposes. It leaves out what is not known now: the ledger does not answer in time.
var (
	limitUnits   = desc("limit_units", "Units that the limit has in its window.", "credential", "limit")
	limitReserve = desc("limit_reserve_units", "Units of the limit that jobs may not touch.", "credential", "limit")
	limitUsed    = desc("limit_used_units", "Units that are debited in the limit's window.", "credential", "limit")
	limitLeft    = desc("limit_left_units", "Units that jobs may still spend: units less reserve less used; +Inf of a limit that is not enforced.", "credential", "limit")
	limitClosed  = desc("limit_closed_until_seconds", "When the limit opens, which the upstream or an operator closed, in seconds since 1970; absent while it is open.", "credential", "limit")
	limitDrift   = desc("limit_drift_units", "Units that are counted here, less those that the upstream counts, as it last said; absent where it never did.", "credential", "limit")
	ledgerUp     = desc("ledger_up", "1 while the ledger decides, else 0.", "backend")
	jobRunning   = desc("job_running", "1 while a run of the job is under way here, else 0.", "job")
	troubleIs    = desc("trouble", "1 for each thing that needs a person; grave if calls or runs are lost now or within the hour. Absent when it is over.", "kind", "of", "grave")
)

// Watch exposes what the sources say.
func (m *Metrics) Watch(s Sources) {
	m.sources = s
	m.registry.MustRegister(collector{s})
}

// A collector exposes what it reads at each scrape.
type collector struct{ Sources }

// Describe implements prometheus.Collector.
func (c collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{limitUnits, limitReserve, limitUsed, limitLeft, limitClosed, limitDrift, ledgerUp, jobRunning, troubleIs} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	state, troubles := c.Troubles(ctx)
	gauge(ledgerUp, number(state.Ledger.Reachable), state.Ledger.Backend)
	for _, credential := range state.Credentials {
		for _, limit := range credential.Credential.Limits {
			gauge(limitReserve, float64(limit.Reserve), credential.Name, limit.Name)
			gauge(limitUnits, float64(limit.Units), credential.Name, limit.Name)
		}
		for _, limit := range credential.Limits {
			gauge(limitUsed, float64(limit.Used), credential.Name, limit.Name)
			left := math.Inf(1)
			if !limit.DryRun {
				left = float64(limit.Remaining())
			}
			gauge(limitLeft, left, credential.Name, limit.Name)
			if !limit.Closed.IsZero() {
				gauge(limitClosed, float64(limit.Closed.Until.UnixMilli())/1000, credential.Name, limit.Name)
			}
			if count := c.Observer.Count(credential.Name, limit.Name); count.Theirs.Known {
				gauge(limitDrift, float64(count.Ours-count.Theirs.Units), credential.Name, limit.Name)
			}
		}
	}
	for _, job := range state.Jobs {
		gauge(jobRunning, number(job.Last != nil && job.Last.State == jobs.RunRunning), job.Name)
	}
	seen := map[[3]string]bool{} // two causes are one series
	for _, one := range troubles {
		labels := [3]string{string(one.Kind), quota.Clipped(one.Of, maxLabel), strconv.FormatBool(one.Grave)}
		if !seen[labels] {
			gauge(troubleIs, 1, labels[:]...)
		}
		seen[labels] = true
	}
}

// maxLabel bounds a label that has the path of a file.
const maxLabel = 200

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
