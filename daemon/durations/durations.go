// Package durations makes histograms of durations that every scraper reads as well as it can: with fixed buckets, as
// native histograms where the scraper asks for Prometheus' protobuf format, and with exemplars where it asks for that
// or for OpenMetrics.
package durations

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Bounds of what a native histogram takes: neighbouring buckets are at most a tenth apart, and a model whose durations
// are spread further than maxBuckets of them gets coarser ones, which are given up for fine ones an hour later at the
// earliest.
const (
	growth     = 1.1
	maxBuckets = 160
	resetAfter = time.Hour
)

// Options returns those of a histogram of seconds with these upper bounds of its fixed buckets.
func Options(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets, NativeHistogramBucketFactor: growth,
		NativeHistogramMaxBucketNumber: maxBuckets, NativeHistogramMinResetDuration: resetAfter}
}

// Observe counts a duration. The exemplar says which one of many it was: by its version, its delta, its trace. Labels
// with an empty value are left out; names and values must take less than 128 characters in all.
func Observe(by prometheus.Observer, d time.Duration, exemplar prometheus.Labels) {
	for name, value := range exemplar {
		if value == "" {
			delete(exemplar, name)
		}
	}
	with, ok := by.(prometheus.ExemplarObserver)
	if !ok || len(exemplar) == 0 {
		by.Observe(d.Seconds())
		return
	}
	with.ObserveWithExemplar(d.Seconds(), exemplar)
}
