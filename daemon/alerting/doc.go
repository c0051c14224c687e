// Package alerting holds the Prometheus rules that refitd ships and the list of its metrics, and checks rules: their form, their PromQL, and
// that every metric and label in them is one that this build has. It evaluates nothing; promtool does.
package alerting
