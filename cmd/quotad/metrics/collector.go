package metrics

import "github.com/prometheus/client_golang/prometheus"

// A collector exposes what it reads at each scrape.
type collector struct {
	descs   []*prometheus.Desc
	collect func(out chan<- prometheus.Metric)
}

// desc returns the description of a metric that the collector exposes.
func (c *collector) desc(name, help string, labels ...string) *prometheus.Desc {
	desc := prometheus.NewDesc(name, help, labels, nil)
	c.descs = append(c.descs, desc)
	return desc
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) { c.collect(out) }

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func boolValue(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
