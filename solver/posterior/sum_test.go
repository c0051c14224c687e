package posterior

import (
	"math"
	"math/rand/v2"
	"testing"
)

// sumParts returns two posteriors over the same features, the second one with more coordinates and a field of main
// effects alone.
func sumParts(group []int32, r *rand.Rand) []*State {
	field := []int32{0, 0, 1, 1, 2, 2}
	parts := []*State{
		New(Gaussian, 1, 2, field, 3, PriorFor(Gaussian, 1)),
		New(Logistic, 3, 3, field, 3, PriorFor(Logistic, 1)),
	}
	for _, s := range parts {
		s.Group, s.Sign[1], s.Bias[0] = group, -1, 3.2
		for j := range field {
			mean, _ := s.Row(j)
			for a := range mean {
				mean[a] = r.NormFloat64()
			}
		}
	}
	parts[1].SetMainOnly([]bool{false, false, true})
	return parts
}

// TestSum: a sum predicts the sum of its parts, by factors of either sign, with fields alone and in groups; rows made
// one by one are those of the state, and a sum of one part is that part in other units, so that the sum by the
// inverse factor is the part again.
func TestSum(t *testing.T) {
	for _, group := range [][]int32{nil, {0, 1, 0}} {
		r := rand.New(rand.NewPCG(31, 1))
		parts := sumParts(group, r)
		factors, bias := []float64{-1.7, 0.6}, []float64{2, 4, 7}
		sum := Sum(Logistic, bias, 1, parts, factors)
		full := *sum
		full.Covariance = make([]float64, len(sum.Field)*sum.CovarianceSize())
		if err := full.Validate(); err != nil {
			t.Fatal(err)
		}
		model, got, work := sum.Model(), make([]float64, 3), make([]float64, 100)
		for range 20 {
			index, value := []int32{int32(r.IntN(2)), int32(2 + r.IntN(2)), int32(4 + r.IntN(2))}, []float64{1, 1, 0.5}
			model.Predict(got, work, index, value)
			want := 0.0
			for i, p := range parts {
				own := make([]float64, len(p.Bias))
				p.Model().Predict(own, work, index, value)
				want += factors[i] * (own[0] - p.Bias[0])
			}
			for c, o := range got {
				if math.Abs(o-bias[c]-want) > 1e-9 {
					t.Fatalf("groups %v: output %d is %g, want %g", group, c, o-bias[c], want)
				}
			}
		}
		row, rows := make([]float64, sum.RowSize()), make([][]float64, len(parts))
		for j := range sum.Field {
			for i, p := range parts {
				rows[i], _ = p.Row(j)
			}
			SumRow(row, factors, rows)
			mean, _ := sum.Row(j)
			for a := range row {
				if row[a] != mean[a] {
					t.Fatalf("row %d, coordinate %d: %g by SumRow, %g in the state", j, a, row[a], mean[a])
				}
			}
		}
		if sum.MainOnly != nil {
			t.Errorf("main effects alone in %v, and one part has coordinates there", sum.MainOnly)
		}
		one := Sum(Logistic, bias, 1, parts[1:], []float64{-2})
		if one.MainOnly == nil || !one.MainOnly[2] || one.MainOnly[0] {
			t.Errorf("main effects alone in %v of a single part's %v", one.MainOnly, parts[1].MainOnly)
		}
		back := Sum(Logistic, parts[1].Bias, 1, []*State{one}, []float64{-0.5})
		for name, pair := range map[string][2][]float64{"means": {back.Mean, parts[1].Mean}, "precisions": {back.Precision,
			parts[1].Precision},
			"signs": {back.Sign, parts[1].Sign}} {
			for i := range pair[0] {
				if math.Abs(pair[0][i]-pair[1][i]) > 1e-12 {
					t.Fatalf("%s: %g there and back, %g before", name, pair[0][i], pair[1][i])
				}
			}
		}
		if both := Sum(Gaussian, bias[:1], 1, []*State{parts[0], parts[0]}, []float64{1, -3}); math.Abs(
			both.PrecisionOf(1)[0]*16-parts[0].PrecisionOf(1)[0]) > 1e-12 {
			t.Errorf("precision of linear weights %g, want a sixteenth of %g", both.PrecisionOf(1)[0],
				parts[0].PrecisionOf(1)[0])
		}
		if parts[0].Sign[1] != -1 || len(parts[0].Bias) != 1 {
			t.Error("a part was changed")
		}
	}
}
