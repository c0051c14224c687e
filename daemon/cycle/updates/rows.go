package updates

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"gonum.org/v1/gonum/floats"
)

// PosteriorRows are rows of the fold-in in closed form, or of a sum of such: their mean as it is now, scaled as the
// update's vectors are.
type PosteriorRows struct {
	Learner  *experts.FoldIn
	Steady   []bool                     // fields whose rows are those of the slowest rate; nil for none
	Sum      *mixture.LinearCombination // nil for the learner's rows as they are
	Loadings *posterior.Loadings        // which coordinate a vector of the update is of, and its scale there
	Linear   int                        // linear weights of a row
	Outputs  int                        // of versions
	Changed  func() string              // why the sum is another by now, empty where it is not; nil without
	mean     []float64                  // of the row at hand
}

func (r *PosteriorRows) Stale() string {
	if r.Changed == nil {
		return ""
	}
	return r.Changed()
}

func (r *PosteriorRows) Row(linear, basis []float64, field int, name string) (exists, whole bool) {
	if r.Sum != nil {
		r.mean, exists = r.Sum.Row(r.mean[:0], field, name)
	} else if of := r.Learner.Feature(field, name); of.Row >= 0 || of.Base >= 0 {
		if of.Row >= 0 {
			of.Base = -1
		}
		r.mean, exists = r.Learner.FoldIn.Row(r.mean[:0], of, r.Steady), true
	}
	if !exists { // given up for another name: it stays as it was published
		return false, true
	}
	// Outputs that share z have one linear weight, which each output of a version gets.
	for c := range linear {
		linear[c] = r.mean[min(c, r.Linear-1)]
	}
	return true, r.Loadings.Row(basis, field, r.mean[r.Linear:])
}

func (r *PosteriorRows) Rest(d *format.Delta, _ func(RowChange)) {
	d.Bias = make([]float64, r.Outputs)
	if r.Sum != nil {
		r.Sum.Bias(d.Bias)
		return
	}
	copy(d.Bias, r.Learner.FoldIn.Base().Bias)
}

// GradientRows are the champion's as the mix of experts counts it, with the mix of their steps.
type GradientRows struct{ Learner *experts.Gradient }

func (r *GradientRows) Stale() string { return "" }

func (r *GradientRows) Row(linear, basis []float64, field int, name string) (exists, whole bool) {
	l := r.Learner
	j := l.Champion.Vocabulary.Column(field, name)
	at := l.Slots.Find(field, name)
	// New names have no column in the champion: deltas of these models change columns only.
	if j < 0 {
		return false, true
	}
	l.Weigh()
	if r.column(linear, basis, j, l.OnChampion()); at >= 0 {
		l.AddNamed(linear, at)
	}
	return true, true
}

// column stores the champion's row of a column.
func (r *GradientRows) column(linear, basis []float64, j int32, share float64) {
	champion := r.Learner.Champion.Model
	m, k := champion.NumOutputs, champion.NumBasis
	copy(basis, champion.Basis[int(j)*k:(int(j)+1)*k])
	if champion.Linear != nil {
		for c, w := range champion.Linear[int(j)*m : (int(j)+1)*m] {
			linear[c] = w * share
		}
	}
}

func (r *GradientRows) Rest(d *format.Delta, add func(RowChange)) {
	l := r.Learner
	l.Weigh()
	champion, v := l.Champion.Model, l.Champion.Vocabulary
	shared := solver.Model{
		NumOutputs: champion.NumOutputs,
		NumBasis:   champion.NumBasis,
		Weights:    append([]float64(nil), champion.Weights...),
		Bias:       append([]float64(nil), champion.Bias...),
		Map:        append([]float64(nil), champion.Map...),
	}
	share, numeric := l.Shift(&shared)
	d.Bias, d.Weights, d.MapWeights = shared.Bias, shared.Weights, shared.Map
	m, first := champion.NumOutputs, v.NumNames()
	for f := range v.NumColumns() - int(first) { // of the constant, too
		linear, basis := make([]float64, m), make([]float64, champion.NumBasis)
		r.column(linear, basis, first+int32(f), share)
		if f < len(v.Numeric) {
			for c, w := range numeric[f*m : f*m+m] {
				linear[c] += w
			}
		}
		add(RowChange{Column: int32(f), Linear: linear, Basis: basis})
	}
}

// namesRows are weights of names and of pairs of names by the learner on names.
type namesRows struct {
	learner *experts.Pairwise
	touched *experts.TouchedPairs
	in      []bool // of its terms, in the update
	field   []int  // of its terms, in the update
	limit   int    // pairs of a delta
}

// NewNamesRows has the learner list the pairs that it learns from now on, for an update with the given vocabulary.
func NewNamesRows(l *experts.Pairwise, v *encode.Vocabulary, limit int) *namesRows {
	r := &namesRows{learner: l, touched: &experts.TouchedPairs{Listed: make(map[uint64]struct{})}, limit: limit}
	l.Touched = append(l.Touched, r.touched)
	// Pairs have additional fields in the update, after its categorical ones and before its lists.
	own := v.FirstOwn()
	for t := range l.Terms {
		x := &l.Terms[t]
		field := x.Field
		switch {
		case x.With >= 0 && x.In:
			field = own
			own++
		case x.Field >= v.FirstOwn():
			field += v.Own
		}
		r.in, r.field = append(r.in, x.In), append(r.field, field)
	}
	return r
}

// mostTouched is how many pairs may wait to be in a delta, in deltas. Chosen by hand.
const mostTouched = 10

func (r *namesRows) Stale() string {
	for t := range r.in {
		if r.learner.Terms[t].In != r.in[t] {
			return "the learner on names has taken up or left out a field or pair of fields"
		}
	}
	// Events touch pairs faster than deltas take them: the list would grow without end.
	if len(r.touched.List) > mostTouched*r.limit {
		return "too many pairs of names wait for a delta"
	}
	return ""
}

func (r *namesRows) Row(linear, _ []float64, field int, name string) (exists, whole bool) {
	if name == "" || field >= len(r.in) {
		return false, true
	}
	linear[0] = r.learner.WeightOf(field, name)
	return true, true
}

func (r *namesRows) Rest(d *format.Delta, add func(RowChange)) {
	d.Bias = []float64{r.learner.Fixed()}
	for _, p := range r.touched.Take(r.limit) {
		add(
			RowChange{
				Column: -1,
				Field:  r.field[p.Term],
				Name:   event.CrossName(p.A, p.B),
				Linear: []float64{r.learner.WeightOfPair(p)},
			},
		)
	}
}

// NewtonRows are Newton's learner on the scaling of the update's feature map.
type NewtonRows struct {
	Learner  *experts.Newton
	Vocab    *encode.Vocabulary
	Features *format.FeatureMap
	Kernel   solver.Kernel
}

// mapMoves is by how many scales the numbers of a feature map may have moved, or by what share its scales have changed,
// before an update has another map. Chosen by hand.
const mapMoves = 0.05

func (r *NewtonRows) Stale() string { return rescaled(r.Features, r.Learner.Numbers) }

// rescaled says that numbers have moved away from the scaling of a feature map, if they have.
func rescaled(features *format.FeatureMap, numbers *encode.NumberScale) string {
	for f := range features.Scaling {
		s := &features.Scaling[f]
		center, scale := numbers.Fields[f].Of()
		// Written so that NaN is stale, too.
		if !(math.Abs(center-s.Center) <= mapMoves*s.Scale && math.Abs(scale-s.Scale) <= mapMoves*s.Scale) {
			return "the numbers have another scale"
		}
	}
	return ""
}

func (r *NewtonRows) Row(_, _ []float64, _ int, _ string) (exists, whole bool) { return false, true }

func (r *NewtonRows) Rest(d *format.Delta, add func(RowChange)) {
	model := r.Learner.Frozen(r.Learner.Weights, r.Vocab, r.Kernel)
	d.Bias, d.MapWeights = model.Bias, model.Map
	m, first := model.NumOutputs, r.Vocab.NumNames()
	for f := range r.Vocab.Numeric {
		j := int(first) + f
		add(RowChange{Column: int32(f), Linear: model.Linear[j*m : (j+1)*m]})
	}
}

// LinearRows are the rows of a linear learner, on the scaling of the update's feature map.
type LinearRows struct {
	Learner experts.Linear
	Numbers *encode.NumberScale
	Vocab   *encode.Vocabulary // of the update, with its feature map, if any
	Kernel  solver.Kernel
}

func (r *LinearRows) Stale() string {
	if r.Vocab.Map == nil {
		return ""
	}
	return rescaled(r.Vocab.Map, r.Numbers)
}

func (r *LinearRows) Row(linear, _ []float64, field int, name string) (exists, whole bool) {
	r.Learner.Weigh()
	return r.Learner.FreezeName(linear, field, name), true
}

func (r *LinearRows) Rest(d *format.Delta, add func(RowChange)) {
	p, m := len(r.Vocab.Numeric), r.Learner.NumOutputs()
	model := solver.NewModel(r.Kernel, p, m, true)
	r.Learner.FreezeShared(model, r.Vocab, 0)
	d.Bias, d.MapWeights = model.Bias, model.Map
	for f := range p {
		add(RowChange{Column: int32(f), Linear: model.Linear[f*m : (f+1)*m]})
	}
}

// treesRows are boosted trees, whole once they were fitted anew or their shares have moved, and no rows.
type treesRows struct {
	learner *experts.Boosted
	made    *fitted.FixedModel // the update
	fits    int                // of the trees that came last
	shares  []float64          // of the ensembles there
	bias    []float64          // with these
}

// NewTreesRows follows trees that an update was made of just now.
func NewTreesRows(l *experts.Boosted, made *fitted.FixedModel) *treesRows {
	return &treesRows{learner: l, made: made, fits: l.Fits(), shares: slices.Clone(l.Shares()),
		bias: made.Model.Bias}
}

func (*treesRows) Stale() string { return "" }

func (*treesRows) Row(_, _ []float64, _ int, _ string) (exists, whole bool) { return false, true }

func (r *treesRows) Rest(d *format.Delta, _ func(RowChange)) {
	shares := r.learner.Shares()
	if n := r.learner.Fits(); n != r.fits || floats.Distance(shares, r.shares, math.Inf(1)) > treesMove {
		r.fits, r.shares = n, slices.Clone(shares)
		if model, v := r.learner.Freeze(r.made.Vocab, r.made.Model.Kernel); model != nil && model.IsFinite() {
			d.Trees, r.bias = v.Trees, model.Bias
		}
	}
	d.Bias = slices.Clone(r.bias)
}
