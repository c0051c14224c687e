// Package metrics shows to Prometheus what a consumer of versions has: which one it serves, how old that and its data
// are, and what was refused. It is a separate package so that package snapshot needs the standard library only.
//
//	watcher, err := snapshot.Watch(source, snapshot.WatchOptions{Model: "ratings"})
//	...
//	prometheus.MustRegister(metrics.New(watcher.Status, prometheus.Labels{"model": "ratings"}))
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/refitd/refitd/snapshot"
)

// metric is one series of a watcher.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*snapshot.Status) float64
	time  func(*snapshot.Status) time.Time // in place of value: seconds since 1970, and no series while it is zero
}

// collector collects what a watcher's status says at the moment of a scrape.
type collector struct {
	status  func() snapshot.Status
	metrics []metric
}

// New returns a collector of a watcher, whose Status is given. Times without a value have no series; all else is
// there from the start. Labels distinguish several watchers in one registry: the alerts of configs/refitd.rules.yml
// ask for "model". It may be collected from any goroutine.
func New(status func() snapshot.Status, labels prometheus.Labels) prometheus.Collector {
	c := &collector{status: status}
	add := func(name, help string, m metric) {
		m.desc = prometheus.NewDesc("refitd_watch_"+name, help, nil, labels)
		c.metrics = append(c.metrics, m)
	}
	number := func(name, help string, kind prometheus.ValueType, value func(*snapshot.Status) float64) {
		add(name, help, metric{kind: kind, value: value})
	}
	moment := func(name, help string, at func(*snapshot.Status) time.Time) {
		add(name+"_timestamp_seconds", help, metric{kind: prometheus.GaugeValue, time: at})
	}
	number("version", "Number of the version that is served; 0 before the first.", prometheus.GaugeValue,
		func(s *snapshot.Status) float64 { return float64(s.Version) })
	number("delta", "Deltas of that version that are applied.", prometheus.GaugeValue,
		func(s *snapshot.Status) float64 { return float64(s.Position.Sequence) })
	number("deltas_applied_total", "Deltas applied.", prometheus.CounterValue,
		func(s *snapshot.Status) float64 { return float64(s.DeltasApplied) })
	number("deltas_refused_total", "Deltas refused, each time they were: the last good state is served on.",
		prometheus.CounterValue, func(s *snapshot.Status) float64 { return float64(s.DeltasRefused) })
	number("deltas_failing", "1 while the last delta was refused or the source of deltas does not answer, else 0.",
		prometheus.GaugeValue, func(s *snapshot.Status) float64 { return flag(s.DeltaErr != nil) })
	number("loads_total", "Versions loaded.", prometheus.CounterValue,
		func(s *snapshot.Status) float64 { return float64(s.Loads) })
	number("refused_total", "Versions and aliases refused: the last good version is served on.",
		prometheus.CounterValue, func(s *snapshot.Status) float64 { return float64(s.Refused) })
	number("failing", "1 while the newest version is not loaded or the source does not answer, else 0.",
		prometheus.GaugeValue, func(s *snapshot.Status) float64 { return flag(s.Err != nil) })
	number("expired", "1 once what is served has expired, else 0.", prometheus.GaugeValue,
		func(s *snapshot.Status) float64 { return flag(s.Expired) })
	moment("created", "When what is served was made, the version or its last delta, by its publisher's clock.",
		func(s *snapshot.Status) time.Time { return s.Position.Created })
	moment("watermark", "Newest event time behind what is served.",
		func(s *snapshot.Status) time.Time { return s.Position.Watermark })
	moment("renewed", "When the publisher last confirmed the alias.",
		func(s *snapshot.Status) time.Time { return s.Renewed })
	moment("checked", "When the source last said something new.",
		func(s *snapshot.Status) time.Time { return s.Checked })
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for i := range c.metrics {
		out <- c.metrics[i].desc
	}
}

// Collect implements prometheus.Collector. All series of a scrape are of one status.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := c.status()
	for i := range c.metrics {
		m := &c.metrics[i]
		if m.time == nil {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&s))
		} else if t := m.time(&s); !t.IsZero() {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, float64(t.UnixMilli())/1000)
		}
	}
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
