package diff

import (
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// Between compares two versions of a model by what is in them: sizes, basis, vocabulary, predictions of their golden
// events. of is cycle.VersionOf. It returns ErrIncomparable.
func Between(a, b *snapshot.Model, of func(*snapshot.Manifest) report.Version) (report.DiffSummary, error) {
	s := report.DiffSummary{
		Model:    a.Manifest().Model,
		A:        sideOf(a, of),
		B:        sideOf(b, of),
		Basis:    Basis(a, b),
		Features: Features(a, b),
	}
	s.Same = s.A.PayloadDigest == s.B.PayloadDigest
	golden, err := Golden(a, b)
	if err == nil {
		s.Golden, err = Churn(a, b, golden)
	}
	return s, err
}

func sideOf(m *snapshot.Model, of func(*snapshot.Manifest) report.Version) report.VersionSide {
	x := m.Manifest()
	v := of(&x)
	return report.VersionSide{
		Version:       x.Version,
		Kind:          x.Kind,
		Created:       report.Time(x.Created),
		PayloadDigest: x.PayloadDigest,
		ConfigHash:    x.ConfigHash,
		K:             x.NumBasis,
		Features:      x.NumFeatures,
		Lambda:        report.Number(x.Lambda),
		Rows:          x.Rows,
		Gate:          MetricsOf(x.Gate),
		Form:          v.Form,
		GapRelative:   v.GapRelative,
		Optimality:    v.Optimality(),
	}
}

// MetricsOf converts the metrics of a manifest; nil stays nil.
func MetricsOf(m *format.Metrics) *report.Metrics {
	if m == nil {
		return nil
	}
	number := func(n *format.Number) *report.Number {
		if n == nil {
			return nil
		}
		return report.Some(float64(*n))
	}
	return &report.Metrics{
		N:        m.N,
		Loss:     number(m.Loss),
		RMSE:     number(m.RMSE),
		MAE:      number(m.MAE),
		Accuracy: number(m.Accuracy),
		NDCG1:    number(m.NDCG1),
		NDCG5:    number(m.NDCG5),
	}
}
