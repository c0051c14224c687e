// Package rules knows the metrics of this build and checks Prometheus rules: their form, their PromQL, and
// that every metric and label in them is one that this build has. It evaluates nothing; promtool does.
package rules
