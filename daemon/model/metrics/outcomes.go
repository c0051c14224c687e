package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

// outcomes are the metrics of models whose labels come later; other models have none of their series.
type outcomes struct {
	outcomesApplied *prometheus.CounterVec
	outcomeRows     *prometheus.GaugeVec
	outcomeKeys     *prometheus.GaugeVec
	outcomesLate    *prometheus.GaugeVec
	outcomeRate     *prometheus.GaugeVec
	outcomeDelay    *prometheus.GaugeVec
	openEvents      *prometheus.GaugeVec
	openDropped     *prometheus.CounterVec
}

func newOutcomes(f registrar) outcomes {
	return outcomes{
		outcomesApplied: f.counter("outcomes_total", "Outcomes applied to the state, by topic.", "topic"),
		outcomeRows: f.gauge("outcome_rows",
			"Rows of the last refit's sample: joined have an outcome, open have none yet and their window lasts.", "state"),
		outcomeKeys: f.gauge("outcome_keys",
			"Keys with outcomes at the last refit: matched have their event in the sample, unmatched wait for it.", "state"),
		outcomesLate: f.gauge("outcomes_late", "Outcomes of the last refit's rows that came after the window."),
		outcomeRate:  f.gauge("outcome_rate", "Share of the events that have an outcome, as the last refit estimated it."),
		outcomeDelay: f.gauge("outcome_delay_seconds",
			"Quantiles of the time between event and outcome, as the last refit estimated them.", "quantile"),
		openEvents: f.gauge("outcome_open_keys", "Keys in memory of events whose label is not final, and of outcomes "+
			"whose event was not read."),
		openDropped: f.counter("outcome_dropped_events_total",
			"Events that only refits learn: too many are open, or they came after their window."),
	}
}

// addOutcomes makes the series of a model exist that has outcomes.
func (m *outcomes) addOutcomes(c *config.Model) {
	for _, topic := range c.Input.Outcomes.Topics {
		m.outcomesApplied.WithLabelValues(c.Name, topic)
	}
	if len(c.Input.Outcomes.Topics) > 0 {
		m.openEvents.WithLabelValues(c.Name)
		m.openDropped.WithLabelValues(c.Name)
	}
}

// Joined shows how the events and outcomes of a refit's sample met.
func (m *outcomes) Joined(model string, o *report.Outcomes) {
	if o == nil {
		return
	}
	m.outcomeRows.WithLabelValues(model, "joined").Set(float64(o.Joined))
	m.outcomeRows.WithLabelValues(model, "open").Set(float64(o.Open))
	m.outcomeKeys.WithLabelValues(model, "matched").Set(float64(o.Stubs - o.Unmatched))
	m.outcomeKeys.WithLabelValues(model, "unmatched").Set(float64(o.Unmatched))
	m.outcomesLate.WithLabelValues(model).Set(float64(o.Late))
	m.outcomeRate.WithLabelValues(model).Set(o.Rate)
	for quantile, seconds := range map[string]float64{"0.5": o.Delays.Median, "0.9": o.Delays.P90, "0.99": o.Delays.P99} {
		m.outcomeDelay.WithLabelValues(model, quantile).Set(seconds)
	}
}
