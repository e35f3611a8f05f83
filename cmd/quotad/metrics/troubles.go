package metrics

import (
	"context"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"quotad/cmd/quotad/trouble"
)

// WatchTroubles exposes what needs a person. Their names are of the configuration, and so their number is bounded.
func (m *Metrics) WatchTroubles(list func(context.Context) []trouble.Trouble) {
	t := &collector{}
	is := t.desc("quotad_trouble", "1 for each thing that needs a person; grave if calls or runs are lost now. Absent when it is over.", "kind", "of", "grave")
	t.collect = func(out chan<- prometheus.Metric) {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
		defer cancel()
		for _, one := range list(ctx) {
			out <- gauge(is, 1, string(one.Kind), one.Of, strconv.FormatBool(one.Grave))
		}
	}
	m.registry.MustRegister(t)
}
