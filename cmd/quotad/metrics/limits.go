package metrics

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/upstream"
)

// Limits is a collector that reads the state of every limit at each scrape. What the
// ledger does not answer in time is left out.
type limits struct {
	service  *quota.Service
	observer *upstream.Observer
	forecast func(context.Context) ([]plan.Forecast, error)

	closed, drift, lent                             *prometheus.Desc
	units, reserve, used, remaining, exhaustion, up *prometheus.Desc
}

func newLimits(service *quota.Service, observer *upstream.Observer, forecast func(context.Context) ([]plan.Forecast, error)) *limits {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"credential", "limit"}, nil)
	}
	return &limits{
		service:    service,
		observer:   observer,
		forecast:   forecast,
		closed:     desc("quotad_limit_closed_until_seconds", "When the limit opens, which the upstream or an operator closed, in seconds since 1970; absent while it is open."),
		drift:      desc("quotad_limit_drift_units", "Units that are counted here, less those that the upstream counts, as it last said; absent where it never did."),
		units:      desc("quotad_limit_units", "Units that the limit has in its window, loans included."),
		lent:       desc("quotad_limit_lent_units", "Units of quotad_limit_units that operators have lent; absent while nothing is."),
		reserve:    desc("quotad_limit_reserve_units", "Units of the limit that jobs may not touch."),
		used:       desc("quotad_limit_used_units", "Units that are debited in the limit's window."),
		remaining:  desc("quotad_limit_remaining_units", "Units that jobs may still spend: units less reserve less used; +Inf of a limit that denies nothing, because it is lifted or not enforced."),
		exhaustion: desc("quotad_limit_exhaustion_seconds", "Time until the limit denies something, if the jobs run as planned and all else continues as in the last hour; +Inf if that is a day away or more, or the limit denies nothing; absent of windows shorter than an hour that are not spent."),
		up:         prometheus.NewDesc("quotad_ledger_up", "1 while the ledger decides, else 0.", []string{"backend"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (l *limits) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{l.units, l.lent, l.reserve, l.used, l.remaining, l.exhaustion, l.closed, l.drift, l.up} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (l *limits) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	health := l.service.Health(ctx)
	out <- prometheus.MustNewConstMetric(l.up, prometheus.GaugeValue, boolValue(health.Reachable), health.Backend)
	forecasts, _ := l.forecast(ctx) // absent if the ledger does not answer
	for _, c := range l.service.Credentials() {
		for _, limit := range c.Limits {
			out <- gauge(l.reserve, float64(limit.Reserve), c.Name, limit.Name)
		}
		usage, known, err := l.service.Usage(ctx, c.Name)
		if !known || err != nil { // the loans are unknown too
			for _, limit := range c.Limits {
				out <- gauge(l.units, float64(limit.Units), c.Name, limit.Name)
			}
			continue
		}
		l.collect(out, c.Name, usage, forecasts)
	}
}

func (l *limits) collect(out chan<- prometheus.Metric, credential string, usage quota.Usage, forecasts []plan.Forecast) {
	drifts := l.observer.Drifts(credential)
	for _, limit := range usage.Limits {
		if !limit.Closed.IsZero() {
			out <- gauge(l.closed, float64(limit.Closed.Until.UnixMilli())/1000, credential, limit.Name)
		}
		if d, said := drifts[limit.Name]; said && d.Theirs.Known {
			out <- gauge(l.drift, float64(d.By()), credential, limit.Name)
		}
		out <- gauge(l.units, float64(limit.Total()), credential, limit.Name)
		if len(limit.Lent) > 0 {
			out <- gauge(l.lent, float64(limit.LentUnits()), credential, limit.Name)
		}
		out <- gauge(l.used, float64(limit.Used), credential, limit.Name)
		remaining := float64(limit.Remaining())
		if !limit.Refuses() {
			remaining = math.Inf(1)
		}
		out <- gauge(l.remaining, remaining, credential, limit.Name)
		if left, known := exhaustion(credential, limit, forecasts, usage.Now); known {
			out <- gauge(l.exhaustion, left, credential, limit.Name)
		}
	}
}

// exhaustion returns the seconds until a limit denies something.
func exhaustion(credential string, limit quota.LimitState, forecasts []plan.Forecast, now time.Time) (seconds float64, known bool) {
	switch f := plan.ForecastOf(forecasts, credential, limit.Name); {
	case !limit.Refuses():
		return math.Inf(1), true
	case limit.Remaining() == 0:
		return 0, true
	case f.Limit == "":
		return 0, false
	case f.GoneAt.IsZero():
		return math.Inf(1), true
	default:
		return max(0, f.GoneAt.Sub(now).Seconds()), true
	}
}

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func boolValue(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
