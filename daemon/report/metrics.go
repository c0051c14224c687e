package report

import (
	"maps"
	"slices"
)

// MetricField is one member of Metrics that is a number, or the count n.
type MetricField struct {
	Name   string // in JSON, in --require and in the label metric of refitd_progressive_metric
	Column string // in tables for people
	Value  func(*Metrics) *Number
}

// MetricFields are all members of Metrics but n and the recalls, in the order of tables.
var MetricFields = []MetricField{
	{"loss", "loss", func(m *Metrics) *Number { return m.Loss }},
	{"rmse", "rmse", func(m *Metrics) *Number { return m.RMSE }},
	{"mae", "mae", func(m *Metrics) *Number { return m.MAE }},
	{"accuracy", "accuracy", func(m *Metrics) *Number { return m.Accuracy }},
	{"ndcg_1", "ndcg@1", func(m *Metrics) *Number { return m.NDCG1 }},
	{"ndcg_5", "ndcg@5", func(m *Metrics) *Number { return m.NDCG5 }},
	{"ndcg_10", "ndcg@10", func(m *Metrics) *Number { return m.NDCG10 }},
	{"recall_10", "recall@10", func(m *Metrics) *Number { return m.Recall10 }},
	{"auc", "auc", func(m *Metrics) *Number { return m.AUC }},
	{"ece", "ece", func(m *Metrics) *Number { return m.ECE }},
	{"entropy_normalised", "entropy/base", func(m *Metrics) *Number { return m.EntropyNormalised }},
	{"kappa_last", "kappa/last", func(m *Metrics) *Number { return m.KappaLast }},
	{"macro_f1", "macro f1", func(m *Metrics) *Number { return m.MacroF1 }},
	{"top3_error", "top-3 error", func(m *Metrics) *Number { return m.Top3Error }},
	{"top5_error", "top-5 error", func(m *Metrics) *Number { return m.Top5Error }},
	{"top10_error", "top-10 error", func(m *Metrics) *Number { return m.Top10Error }},
}

// Role is one predictor of Progressive with its metrics.
type Role struct {
	Name    string // in JSON and in the label role of metrics
	Title   string // for people
	Model   bool   // published or live, no baseline
	Metrics *Metrics
}

// Roles returns the predictors that have metrics over the window, models first.
func (p *Progressive) Roles() []Role {
	b := &p.Baselines
	return slices.DeleteFunc(
		[]Role{{"published", "published", true, p.Window.Published}, {"live", "live", true, p.Window.Live},
			{
				"global_mean",
				"global mean",
				false,
				b.GlobalMean,
			}, {"item_mean", "item mean", false, b.ItemMean}, {"sgd_bias", "SGD biases", false, b.SGDBias},
			{"majority", "majority", false, b.Majority}, {"last_label", "last label", false, b.LastLabel},
			{"linear", "linear", false, b.Linear}},
		func(r Role) bool { return r.Metrics == nil },
	)
}

// RecallClasses returns the names of the classes whose recall is known, in order.
func (m *Metrics) RecallClasses() []string { return slices.Sorted(maps.Keys(m.RecallPerClass)) }
