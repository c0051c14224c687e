package diff

import (
	"cmp"
	"errors"
	"math"
	"reflect"
	"slices"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// ErrIncomparable is returned for two versions whose predictions are not of the same kind or whose fields differ.
var ErrIncomparable = errors.New(
	"diff: the versions have different tasks, classes, levels or fields: their predictions cannot be compared")

// comparable returns ErrIncomparable unless both models take the same events and predict the same thing.
func comparable(a, b *snapshot.Schema) error {
	names := func(s *snapshot.Schema) []string {
		var list []string
		for _, f := range s.Numeric {
			list = append(list, f.Name)
		}
		return list
	}
	if a.Task != b.Task || a.Levels != b.Levels || !slices.Equal(a.Classes, b.Classes) || !slices.Equal(a.Categorical,
		b.Categorical) ||
		!slices.Equal(a.Multi, b.Multi) ||
		!slices.Equal(names(a), names(b)) {
		return ErrIncomparable
	}
	return nil
}

// Golden returns the golden events of both versions, those that both have once. It returns ErrIncomparable.
func Golden(a, b *snapshot.Model) ([]snapshot.Input, error) {
	if err := comparable(a.Schema(), b.Schema()); err != nil {
		return nil, err
	}
	var events []snapshot.Input
	for _, m := range []*snapshot.Model{a, b} {
		for _, g := range m.Contents().Golden {
			if !slices.ContainsFunc(events, func(e snapshot.Input) bool { return same(&e, &g.Input) }) {
				events = append(events, g.Input)
			}
		}
	}
	return events, nil
}

// same compares two events; a missing number equals a missing number.
func same(a, b *snapshot.Input) bool {
	return slices.Equal(a.Categorical, b.Categorical) && reflect.DeepEqual(a.Multi, b.Multi) &&
		slices.EqualFunc(a.Numeric, b.Numeric,
			func(x, y float64) bool { return x == y || math.IsNaN(x) && math.IsNaN(y) })
}

// Churn compares the predictions of two comparable versions on events. One that either refuses is left out: it lacks a
// field that is not optional there.
func Churn(a, b *snapshot.Model, events []snapshot.Input) (report.Churn, error) {
	if err := comparable(a.Schema(), b.Schema()); err != nil {
		return report.Churn{}, err
	}
	task := a.Schema().Task
	isNumber := task == format.Regression || task == format.Ordinal
	var total, largest, changed float64
	var outA, outB [][]float64 // per event, what is compared
	for i := range events {
		p, err := a.Predict(&events[i])
		var q snapshot.Prediction
		if err == nil {
			q, err = b.Predict(&events[i])
		}
		if errors.Is(err, snapshot.ErrInput) {
			continue
		}
		if err != nil {
			return report.Churn{}, err
		}
		x, y := compared(&p, isNumber), compared(&q, isNumber)
		if len(x) != len(y) {
			x, y = p.Outputs, q.Outputs // their links differ
		}
		if len(x) != len(y) {
			return report.Churn{}, ErrIncomparable
		}
		apart := 0.0
		for c := range x {
			d := math.Abs(x[c] - y[c])
			apart += d / float64(len(x))
			largest = max(largest, d)
		}
		total += apart
		if !reflect.DeepEqual(p.Label(), q.Label()) {
			changed++
		}
		outA, outB = append(outA, x), append(outB, y)
	}
	n := float64(len(outA))
	out := report.Churn{
		Events:          len(outA),
		MeanAbsolute:    report.Number(total / n),
		LargestAbsolute: report.Number(largest),
		RankCorrelation: correlation(outA, outB),
	}
	if !isNumber {
		out.ChangedClasses = report.Some(changed / n)
	}
	return out, nil
}

// compared is what the difference of two predictions is taken of.
func compared(p *snapshot.Prediction, isNumber bool) []float64 {
	switch {
	case isNumber:
		return []float64{p.Value}
	case p.Probabilities != nil:
		return p.Probabilities
	}
	return p.Outputs
}

// correlation returns the mean over the columns of Spearman's rank correlation between two tables with a row for each
// event, nil if it is not defined for any column.
func correlation(a, b [][]float64) *report.Number {
	if len(a) < 2 {
		return nil
	}
	total, columns := 0.0, 0
	for c := range a[0] {
		x, y := ranks(a, c), ranks(b, c)
		if rho := pearson(x, y); !math.IsNaN(rho) {
			total += rho
			columns++
		}
	}
	if columns == 0 {
		return nil
	}
	return report.Some(total / float64(columns))
}

// ranks returns the ranks of a column from 1; ties share their mean rank.
func ranks(rows [][]float64, c int) []float64 {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(rows[i][c], rows[j][c]) })
	out := make([]float64, len(rows))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && rows[order[j]][c] == rows[order[i]][c] {
			j++
		}
		for _, at := range order[i:j] {
			out[at] = float64(i+j+1) / 2
		}
		i = j
	}
	return out
}

// pearson returns the correlation of two lists of ranks, whose mean is that of the numbers from 1, or NaN if one is
// constant.
func pearson(x, y []float64) float64 {
	mean := float64(len(x)+1) / 2
	xy, xx, yy := 0.0, 0.0, 0.0
	for i := range x {
		xy += (x[i] - mean) * (y[i] - mean)
		xx += (x[i] - mean) * (x[i] - mean)
		yy += (y[i] - mean) * (y[i] - mean)
	}
	return xy / math.Sqrt(xx*yy)
}
