package experts

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// namePair is a pair of names of a term.
type namePair struct {
	Term int
	A, B string
}

// TouchedPairs lists the pairs that were learned since they were taken last, each once, in the order in which they
// first were.
type TouchedPairs struct {
	List   []touchedPair
	Listed map[uint64]struct{}
}

type touchedPair struct {
	key uint64
	namePair
}

func (t *TouchedPairs) add(key uint64, p namePair) {
	if _, ok := t.Listed[key]; !ok {
		t.Listed[key] = struct{}{}
		t.List = append(t.List, touchedPair{key, p})
	}
}

// Take removes the first ones, at most limit.
func (t *TouchedPairs) Take(limit int) []touchedPair {
	n := min(limit, len(t.List))
	taken := slices.Clone(t.List[:n])
	for i := range taken {
		delete(t.Listed, taken[i].key)
	}
	t.List = t.List[:copy(t.List, t.List[n:])]
	return taken
}

// Fixed returns the constant of what versions can hold: the bias, and of each field and pair that counts the weight of
// a name that never came.
func (l *Pairwise) Fixed() float64 {
	sum := l.bias.mean
	for t := range l.Terms {
		if x := &l.Terms[t]; x.In {
			sum += x.counts[0].mean
		}
	}
	return sum
}

// Weight returns by how much the weight of a name or pair is more than that of one that never came: its own, and that
// of how often it has come.
func (x *term) Weight(c *cell) float64 {
	if c == nil || !x.In {
		return 0
	}
	bin := min(bits.Len32(c.count), countBins-1)
	return c.right/(c.evidence+x.Precision) + x.counts[bin].mean - x.counts[0].mean
}

// WeightOf returns the weight of a name, WeightOfPair of a pair, 0 of one that never came.
func (l *Pairwise) WeightOf(field int, name string) float64 {
	return l.Terms[field].Weight(l.Cells.find(rows.MixHash(nameHash(name), 0, uint64(field))))
}

func (l *Pairwise) WeightOfPair(p touchedPair) float64 {
	return l.Terms[p.Term].Weight(l.Cells.find(p.key))
}

// Freeze returns the learner as an ordinary model, with the counts of names as they are now, over v and crosses of its
// own: of the fields whose pairs count, with as many pairs as there is room for among limit names, those that came most
// often first. Outputs are not shrunk by their variance. O(cells + names).
func (l *Pairwise) Freeze(v *encode.Vocabulary, kernel solver.Kernel, limit int) (*solver.Model, *encode.Vocabulary) {
	var own []event.Cross
	place := make([]int, len(l.Terms)) // of the pairs of a term, −1 without
	for t := range l.Terms {
		place[t] = -1
		if x := &l.Terms[t]; x.In && x.With >= 0 {
			place[t] = len(own)
			own = append(own, event.Cross{x.Field, x.With})
		}
	}
	pairs := l.pairs(v, place, len(own), limit-int(v.NumNames()))
	first := len(v.Schema.Categorical)
	if len(own) > 0 {
		names := make([][]string, len(own))
		for i := range pairs {
			for _, p := range pairs[i] {
				names[i] = append(names[i], p.name)
			}
		}
		v = v.WithCrosses(own, names)
	}
	model := solver.NewModel(kernel, v.NumColumns(), 1, true)
	model.Bias[0] = l.Fixed()
	column := 0
	for f, names := range v.Names {
		for i, name := range names {
			switch {
			case f < first:
				model.Linear[column] = l.WeightOf(f, name)
			case f < first+len(own):
				model.Linear[column] = pairs[f-first][i].weight
			default:
				model.Linear[column] = l.WeightOf(f-len(own), name)
			}
			column++
		}
	}
	return model, v
}

// FoldIn returns what versions made of the learner say of fold-in: weights keep all of their evidence, and have before
// it the precision that those of the names of an event have here, on average. Most of a history is in the weights
// already, which it would else be counted in again as if they were new: with the prior's own precision log loss of
// clicks was 0.008 worse with a history than without. It is nil where the schema has no field for it. O(cells).
func (l *Pairwise) FoldIn(m *config.Model) *format.FoldIn {
	f := &format.FoldIn{
		Likelihood:  format.LogisticLikelihood,
		Shared:      true,
		Coordinates: []int{},
		Scale:       []float64{},
	}
	events, evidence := make([]float64, len(l.Terms)), make([]float64, len(l.Terms))
	for i := range l.Cells.List {
		if c := &l.Cells.List[i]; c.key != noKey {
			events[c.term] += float64(c.count)
			evidence[c.term] += float64(c.count) * c.evidence
		}
	}
	for _, name := range fitted.FoldInFields(m) {
		t := slices.Index(m.Schema.Categorical, name)
		precision := namesPrecise // of a field that says nothing
		if x := &l.Terms[t]; x.In {
			precision = x.Precision + evidence[t]/max(events[t], 1)
		}
		f.Fields = append(
			f.Fields,
			format.FoldInField{
				Name:      name,
				Precision: []float64{precision},
				Signs:     []int{},
				Rates:     []float64{1},
				Losses:    []float64{0},
			},
		)
	}
	if len(f.Fields) == 0 {
		return nil
	}
	return f
}

// pairWeight is a pair of names, by its name as a cross, and its weight.
type pairWeight struct {
	name   string
	weight float64
}

// pairs returns the pairs of terms with a place, sorted by name for each of n places: of names in v, and at most limit
// of them, those that came most often.
func (l *Pairwise) pairs(v *encode.Vocabulary, place []int, n, limit int) [][]pairWeight {
	out := make([][]pairWeight, n)
	if n == 0 || limit <= 0 {
		return out
	}
	var found []*cell
	for i := range l.Cells.List {
		if c := &l.Cells.List[i]; c.key != noKey && place[c.term] >= 0 {
			found = append(found, c)
		}
	}
	if len(found) > limit {
		slices.SortFunc(found,
			func(a, b *cell) int { return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.key, b.key)) })
		found = found[:limit]
	}
	known := make(hashedNames, len(v.Names))
	for _, c := range found {
		x := &l.Terms[c.term]
		if name := known.pair(v, x, c); name != "" {
			at := place[c.term]
			out[at] = append(out[at], pairWeight{name, x.Weight(c)})
		}
	}
	for at := range out { // two pairs share a name where names have the sign in them
		slices.SortFunc(out[at],
			func(a, b pairWeight) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.weight, b.weight)) })
		out[at] = slices.CompactFunc(out[at], func(a, b pairWeight) bool { return a.name == b.name })
	}
	return out
}

// hashedNames has the names of fields by the low halves of their hashes, of those fields that were asked for.
type hashedNames []map[uint32][]string

// pair returns the name that a pair of names in v has as a cross, empty where v has not both.
func (h hashedNames) pair(v *encode.Vocabulary, x *term, c *cell) string {
	for _, f := range [2]int{x.Field, x.With} {
		if h[f] != nil {
			continue
		}
		h[f] = make(map[uint32][]string, len(v.Names[f]))
		for _, name := range v.Names[f] {
			low := uint32(nameHash(name))
			h[f][low] = append(h[f][low], name)
		}
	}
	for _, a := range h[x.Field][c.names[0]] {
		for _, b := range h[x.With][c.names[1]] {
			if rows.MixHash(nameHash(a), nameHash(b), uint64(c.term)) == c.key {
				return event.CrossName(a, b)
			}
		}
	}
	return ""
}
