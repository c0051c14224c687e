package experiment

import (
	"math"

	"gonum.org/v1/gonum/stat"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/solver"
)

// regressionSet is a set of Blondel et al. 2016, section 9.4, as its reference in numpy reads it (section e of its
// measurements): three quarters of numpy's permutation with seed 0 to train on, of which the last fifth chooses β;
// columns scaled to [−1, 1] and targets standardised by those rows.
type regressionSet struct {
	name               string
	x                  [][]float64
	y                  []float64
	train, valid, test []int
}

// regressionFiles are the sets by name.
var regressionFiles = map[string][]string{
	"abalone": {
		"abalone",
		"abalone.libsvm",
	}, "cadata": {"cadata", "cadata.libsvm.gz"}, "cpusmall": {"cpusmall", "cpusmall.libsvm.gz"},
	"diabetes": {"diabetes", "diabetes.libsvm"},
}

// readRegression reads a set of regressionFiles.
func (o *Options) readRegression(name string) (*regressionSet, error) {
	set, err := dataset.Read(
		o.file(regressionFiles[name]...),
		dataset.Options{Format: dataset.LIBSVM, Schema: event.Schema{Task: event.Regression}},
	)
	if err != nil {
		return nil, missing(err)
	}
	n := len(set.Examples)
	s := &regressionSet{name: name}
	for i := range set.Examples {
		row := make([]float64, set.NumFeatures)
		for _, e := range set.Examples[i].Sparse {
			row[e.Index] = e.Value
		}
		s.x, s.y = append(s.x, row), append(s.y, set.Examples[i].Label)
	}
	p := permutation(n, 0)
	cut := int(math.RoundToEven(0.75 * float64(n)))
	fit := int(0.8 * float64(cut))
	s.train, s.valid, s.test = p[:fit], p[fit:cut], p[cut:]
	for j := range set.NumFeatures {
		low, high := math.Inf(1), math.Inf(-1)
		for _, i := range p[:cut] {
			low, high = min(low, s.x[i][j]), max(high, s.x[i][j])
		}
		for i := range s.x {
			if s.x[i][j] = -1 + 2*(s.x[i][j]-low); high > low {
				s.x[i][j] = -1 + (s.x[i][j]+1)/(high-low)
			}
		}
	}
	mean, deviation := stat.PopMeanStdDev(pick(s.y, p[:cut]), nil)
	for i := range s.y {
		s.y[i] = (s.y[i] - mean) / deviation
	}
	return s, nil
}

func pick(values []float64, rows []int) []float64 {
	out := make([]float64, len(rows))
	for i, row := range rows {
		out[i] = values[row]
	}
	return out
}

// problem is squared loss on the given rows, with constant columns in front: one makes an interaction of a degree into
// those of that degree and less (section 8), of the ANOVA kernel of one degree less only.
func (s *regressionSet) problem(rows []int, constants int) *solver.Problem {
	d := len(s.x[0]) + constants
	p := &solver.Problem{
		X:       solver.NewRows(d, len(rows), len(rows)*d),
		Targets: pick(s.y, rows),
		Outputs: 1,
		Loss:    solver.Squared{},
	}
	index, value := make([]int32, d), make([]float64, d)
	for j := range index {
		index[j], value[j] = int32(j), 1
	}
	for _, i := range rows {
		copy(value[constants:], s.x[i])
		p.X.Append(index, value)
	}
	return p
}

// explained returns R² of predictions of rows.
func (s *regressionSet) explained(predictions []float64, rows []int) float64 {
	return stat.RSquaredFrom(predictions, pick(s.y, rows), nil)
}

// modelExplained is R² of a model on a problem.
func (s *regressionSet) modelExplained(m *solver.Model, p *solver.Problem, rows []int) float64 {
	return s.explained(predictionsOf(m, p.X), rows)
}

// predictionsOf returns the only output for each row.
func predictionsOf(m *solver.Model, x *solver.Rows) []float64 {
	output, work, out := make([]float64, 1), make([]float64, 4*m.NumBasis+4), make([]float64, x.NumRows())
	for i := range out {
		index, value := x.Row(i)
		m.Predict(output, work, index, value)
		out[i] = output[0]
	}
	return out
}
