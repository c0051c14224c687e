package offline

import (
	"fmt"
	"maps"
	"math"
	"slices"
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
	{"ndcg_10", func(m *report.Metrics) *report.Number { return m.NDCG10 }},
	{"recall_10", func(m *report.Metrics) *report.Number { return m.Recall10 }},
	{"auc", func(m *report.Metrics) *report.Number { return m.AUC }},
	{"ece", func(m *report.Metrics) *report.Number { return m.ECE }},
	{"entropy_normalised", func(m *report.Metrics) *report.Number { return m.EntropyNormalised }},
	{"kappa_last", func(m *report.Metrics) *report.Number { return m.KappaLast }},
	{"macro_f1", func(m *report.Metrics) *report.Number { return m.MacroF1 }},
}

// recallOf begins the name of the metric of one class: recall_per_class.spam.
const recallOf = "recall_per_class."

// metricOf returns the metric of a name.
func metricOf(name string) (metric, bool) {
	if class, ok := strings.CutPrefix(name, recallOf); ok {
		return metric{name, func(m *report.Metrics) *report.Number {
			if v, ok := m.RecallPerClass[class]; ok {
				return &v
			}
			return nil
		}}, true
	}
	for _, m := range allMetrics {
		if m.name == name {
			return m, true
		}
	}
	return metric{}, false
}

// metricNames returns the names of the metrics that are there, of all for nil.
func metricNames(m *report.Metrics) []string {
	var names []string
	for _, c := range allMetrics {
		if m == nil || c.value(m) != nil {
			names = append(names, c.name)
		}
	}
	if m == nil {
		return append(names, recallOf+"CLASS")
	}
	for _, class := range slices.Sorted(maps.Keys(m.RecallPerClass)) {
		names = append(names, recallOf+class)
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
	var ok bool
	if r.metric, ok = metricOf(name); ok {
		return nil
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
