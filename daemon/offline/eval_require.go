package offline

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/refitd/refitd/daemon/report"
)

// metric is one of METRICS by name.
type metric struct {
	name  string
	value func(*report.Metrics) *report.Number
}

var allMetrics = []metric{
	{"n", func(m *report.Metrics) *report.Number { return report.Some(float64(m.N)) }},
	{"loss", func(m *report.Metrics) *report.Number { return m.Loss }},
	{"rmse", func(m *report.Metrics) *report.Number { return m.RMSE }},
	{"mae", func(m *report.Metrics) *report.Number { return m.MAE }},
	{"accuracy", func(m *report.Metrics) *report.Number { return m.Accuracy }},
	{"ndcg_1", func(m *report.Metrics) *report.Number { return m.NDCG1 }},
	{"ndcg_5", func(m *report.Metrics) *report.Number { return m.NDCG5 }},
}

// metricNames returns the names of the metrics that are there, of all for nil.
func metricNames(m *report.Metrics) []string {
	var names []string
	for _, c := range allMetrics {
		if m == nil || c.value(m) != nil {
			names = append(names, c.name)
		}
	}
	return names
}

// A Requirement is a bound on one metric, such as rmse<=0.95.
type Requirement struct {
	metric metric
	op     string // <=, >=, < or >
	bound  float64
}

// UnmarshalText parses a requirement.
func (r *Requirement) UnmarshalText(text []byte) error {
	s := string(text)
	at := strings.IndexAny(s, "<>")
	if at < 0 {
		return fmt.Errorf("requirement %q has no <=, >=, < or >: write, for example, rmse<=0.95", s)
	}
	end := at + 1
	if strings.HasPrefix(s[end:], "=") {
		end++
	}
	name := strings.TrimSpace(s[:at])
	r.op = s[at:end]
	bound, err := strconv.ParseFloat(strings.TrimSpace(s[end:]), 64)
	if err != nil || math.IsNaN(bound) {
		return fmt.Errorf("requirement %q does not end in a number: write, for example, rmse<=0.95", s)
	}
	r.bound = bound
	for _, m := range allMetrics {
		if m.name == name {
			r.metric = m
			return nil
		}
	}
	return fmt.Errorf("requirement %q: unknown metric %q: the metrics are %s", s, name, strings.Join(metricNames(nil), ", "))
}

// String returns the form that UnmarshalText reads.
func (r Requirement) String() string {
	return r.metric.name + r.op + strconv.FormatFloat(r.bound, 'g', -1, 64)
}

// isMetBy reports whether a value meets the requirement; one that is not a number meets none.
func (r Requirement) isMetBy(v float64) bool {
	switch r.op {
	case "<=":
		return v <= r.bound
	case ">=":
		return v >= r.bound
	case "<":
		return v < r.bound
	}
	return v > r.bound
}
