package cycle

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// posteriorRows are rows of the fold-in in closed form, or of a sum of such: their mean as it is now, scaled as the update's vectors are.
type posteriorRows struct {
	learner  *posteriorLearner
	steady   []bool
	sum      *summed // nil for the learner's rows as they are
	loadings *posterior.Loadings
	linear   int           // linear weights of a row
	outputs  int           // of versions
	changed  func() string // why the sum is another by now, empty where it is not; nil without
	mean     []float64     // of the row at hand
}

func (r *posteriorRows) stale() string {
	if r.changed == nil {
		return ""
	}
	return r.changed()
}

func (r *posteriorRows) row(linear, basis []float64, field int, name string) (exists, whole bool) {
	if r.sum != nil {
		r.mean, exists = r.sum.row(r.mean[:0], field, name)
	} else if at := r.learner.slots.find(field, name); at >= 0 {
		r.mean, exists = r.learner.foldIn.Row(r.mean[:0], posterior.Feature{Field: int32(field), Row: at, Base: -1}, r.steady), true
	}
	if !exists { // given up for another name: it stays as it was published
		return false, true
	}
	for c := range linear {
		linear[c] = r.mean[min(c, r.linear-1)]
	}
	return true, r.loadings.Row(basis, field, r.mean[r.linear:])
}

func (r *posteriorRows) rest(d *snapshot.Delta, _ func(rowChange)) {
	d.Bias = make([]float64, r.outputs)
	if r.sum != nil {
		r.sum.bias(d.Bias)
		return
	}
	copy(d.Bias, r.learner.foldIn.Base().Bias)
}

// gradientRows are the champion's as the mix of experts counts it, with the mix of their steps.
type gradientRows struct{ learner *gradientLearner }

func (r *gradientRows) stale() string { return "" }

func (r *gradientRows) row(linear, basis []float64, field int, name string) (exists, whole bool) {
	l := r.learner
	j := l.champion.Vocabulary.Column(field, name)
	at := l.slots.find(field, name)
	if j < 0 || at < 0 {
		return false, true
	}
	l.weigh()
	r.column(linear, basis, j, l.onChampion())
	l.addNamed(linear, at)
	return true, true
}

// column stores the champion's row of a column.
func (r *gradientRows) column(linear, basis []float64, j int32, share float64) {
	champion := r.learner.champion.Model
	m, k := champion.NumOutputs, champion.NumBasis
	copy(basis, champion.Basis[int(j)*k:(int(j)+1)*k])
	if champion.Linear != nil {
		for c, w := range champion.Linear[int(j)*m : (int(j)+1)*m] {
			linear[c] = w * share
		}
	}
}

func (r *gradientRows) rest(d *snapshot.Delta, add func(rowChange)) {
	l := r.learner
	l.weigh()
	champion, v := l.champion.Model, l.champion.Vocabulary
	shared := solver.Model{NumOutputs: champion.NumOutputs, NumBasis: champion.NumBasis, Weights: append([]float64(nil), champion.Weights...),
		Bias: append([]float64(nil), champion.Bias...), Map: append([]float64(nil), champion.Map...)}
	share, numeric := l.shift(&shared)
	d.Bias, d.Weights, d.MapWeights = shared.Bias, shared.Weights, shared.Map
	m, first := champion.NumOutputs, v.numNames()
	for f := range v.NumColumns() - int(first) { // of the constant, too
		linear, basis := make([]float64, m), make([]float64, champion.NumBasis)
		r.column(linear, basis, first+int32(f), share)
		if f < len(v.Numeric) {
			for c, w := range numeric[f*m : f*m+m] {
				linear[c] += w
			}
		}
		add(rowChange{column: first + int32(f), linear: linear, basis: basis})
	}
}

// namesRows are weights of names and of pairs of names by the learner on names.
type namesRows struct {
	learner *namesLearner
	touched *touchedPairs
	in      []bool // of its terms, in the update
	field   []int  // of its terms, in the update
	limit   int    // pairs of a delta
}

// newNamesRows has the learner list the pairs that it learns from now on, for an update with the given vocabulary.
func newNamesRows(l *namesLearner, v *Vocabulary, limit int) *namesRows {
	r := &namesRows{learner: l, touched: &touchedPairs{listed: make(map[uint64]struct{})}, limit: limit}
	l.touched = append(l.touched, r.touched)
	own := v.firstOwn()
	for t := range l.terms {
		x := &l.terms[t]
		field := x.field
		switch {
		case x.with >= 0 && x.in:
			field = own
			own++
		case x.field >= v.firstOwn():
			field += v.own
		}
		r.in, r.field = append(r.in, x.in), append(r.field, field)
	}
	return r
}

// mostTouched is how many pairs may wait to be in a delta, in deltas.
const mostTouched = 10

func (r *namesRows) stale() string {
	for t := range r.in {
		if r.learner.terms[t].in != r.in[t] {
			return "the learner on names has taken up or left out a field or pair of fields"
		}
	}
	if len(r.touched.list) > mostTouched*r.limit {
		return "too many pairs of names wait for a delta"
	}
	return ""
}

func (r *namesRows) row(linear, _ []float64, field int, name string) (exists, whole bool) {
	if name == "" || field >= len(r.in) {
		return false, true
	}
	linear[0] = r.learner.weightOf(field, name)
	return true, true
}

func (r *namesRows) rest(d *snapshot.Delta, add func(rowChange)) {
	d.Bias = []float64{r.learner.fixed()}
	for _, p := range r.touched.take(r.limit) {
		add(rowChange{column: -1, field: r.field[p.term], name: event.CrossName(p.a, p.b), linear: []float64{r.learner.weightOfPair(p)}})
	}
}

// newtonRows are Newton's learner on the scaling of the update's feature map.
type newtonRows struct {
	learner  *newtonLearner
	vocab    *Vocabulary
	features *snapshot.FeatureMap
	kernel   solver.Kernel
}

// mapMoves is by how many scales the numbers of a feature map may have moved, or by what share its scales have changed, before an update has another map.
const mapMoves = 0.05

func (r *newtonRows) stale() string {
	for f := range r.features.Scaling {
		s := &r.features.Scaling[f]
		center, scale := r.learner.numbers.fields[f].of()
		if !(math.Abs(center-s.Center) <= mapMoves*s.Scale && math.Abs(scale-s.Scale) <= mapMoves*s.Scale) {
			return "the numbers have another scale"
		}
	}
	return ""
}

func (r *newtonRows) row(_, _ []float64, _ int, _ string) (exists, whole bool) { return false, true }

func (r *newtonRows) rest(d *snapshot.Delta, add func(rowChange)) {
	model := r.learner.frozen(r.learner.weights, r.vocab, r.kernel)
	d.Bias, d.MapWeights = model.Bias, model.Map
	m, first := model.NumOutputs, r.vocab.numNames()
	for f := range r.vocab.Numeric {
		j := int(first) + f
		add(rowChange{column: int32(j), linear: model.Linear[j*m : (j+1)*m]})
	}
}
