package updates

import (
	"math"
	"math/rand/v2"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/guard"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// Updates of choices are compared by what lists are judged by: the place of what was chosen, before anything has
// learned it, among names that were chosen before, drawn alike, by 1 less 1/log2(1+place). Drawn as often as chosen
// they would be names that were chosen late, which newer counts put higher. Of choices that count in full every
// RankedEvery-th is judged. Chosen by hand.
const (
	RankedEvery = 8
	rankedNames = 100 // other than the one that was chosen
	RankedKept  = 100 // choices by which updates are guarded: a pass takes some milliseconds
)

// RankingsBytes is what the choices that are kept take, with their other names: about 2 KB each.
// Measured.
const RankingsBytes = RankedKept * (rankedNames*8 + 1200)

// Rankings are the choices by which updates are compared. It belongs to who holds the lock of the cycle.
type Rankings struct {
	field   int // what is chosen
	follows struct{ categorical, numeric, multi []int }
	schema  *event.Schema
	Seen    uint64         // choices that count
	Kept    []rankedChoice // the last that were judged, the oldest at oldest once there are RankedKept
	Oldest  int
}

// rankedChoice is a choice, the names among which it was judged, and the loss of what consumers had.
type rankedChoice struct {
	own    *event.Event
	others []*fitted.NameCounts
	Unseen float64
}

// NewRankings returns nil for a model whose events have labels.
func NewRankings(m *config.Model, schema *event.Schema) *Rankings {
	field := m.ChosenField()
	if field < 0 {
		return nil
	}
	r := &Rankings{field: field, schema: schema}
	for _, list := range []struct {
		names []string
		to    *[]int
	}{{schema.Categorical[:schema.NumGiven()], &r.follows.categorical}, {schema.Numeric, &r.follows.numeric},
		{schema.Multi, &r.follows.multi}} {
		for i, name := range list.names {
			if m.Schema.Follows(name, schema.Categorical[field]) {
				*list.to = append(*list.to, i)
			}
		}
	}
	return r
}

// Among returns a choice with other names that were chosen before, each once.
func (r *Rankings) Among(ev *event.Event, names []*fitted.NameCounts) rankedChoice {
	x, rng := rankedChoice{own: rows.CopyOf(ev)}, rand.New(rand.NewPCG(r.Seen, rankedNames))
	drawn := map[string]struct{}{ev.Categorical[r.field]: {}}
	for range 2 * rankedNames {
		of := names[rng.IntN(len(names))]
		if _, ok := drawn[of.Name]; ok {
			continue
		}
		drawn[of.Name] = struct{}{}
		if x.others = append(x.others, of); len(x.others) == rankedNames {
			break
		}
	}
	return x
}

// with makes to the choice as it would be with another name, and what belongs to that.
func (r *Rankings) with(to *event.Event, name *fitted.NameCounts) {
	to.Categorical[r.field] = name.Name
	if other := name.First; other != nil {
		for _, f := range r.follows.categorical {
			to.Categorical[f] = other.Categorical[f]
		}
		for _, f := range r.follows.numeric {
			to.Numeric[f] = other.Numeric[f]
		}
		for _, f := range r.follows.multi {
			to.Multi[f] = other.Multi[f]
		}
	}
	r.schema.Complete(to)
}

// Loss returns that of a choice in the list of a model: with its popularity, or of that alone. Names that the model
// does not know are in no list.
func (r *Rankings) Loss(s *fitted.Scorer, x *rankedChoice, popularOnly bool, outputs []float64) float64 {
	score := func(ev *event.Event) float64 {
		name := ev.Categorical[r.field]
		if popularOnly && s.Popular != nil {
			if weight := s.Popular.Name(name); weight != 0 {
				return weight
			}
			return math.Inf(-1)
		}
		if !s.Knows(r.field, name) {
			return math.Inf(-1)
		}
		s.Outputs(outputs, ev)
		if s.Popular != nil {
			return outputs[0] + s.Popular.Of(ev)
		}
		return outputs[0]
	}
	own, place := score(x.own), 1.0
	if math.IsInf(own, -1) {
		return 1
	}
	scratch := rows.CopyOf(x.own)
	for _, of := range x.others {
		r.with(scratch, of)
		switch other := score(scratch); {
		case other > own:
			place++
		case other == own:
			place += 0.5
		}
	}
	return 1 - 1/math.Log2(1+place)
}

// IsWorse reports whether the lists of an update gain less than those that consumers have, on the last choices: by a
// share of the gain before these were learned, by GuardErrors standard errors.
func (r *Rankings) IsWorse(update, current *fitted.FixedModel, popularOnly bool, outputs int) bool {
	var losses guard.PairedLosses
	own, had, out := fitted.NewFrozenScorer(update), fitted.NewFrozenScorer(current), make([]float64, outputs)
	for i := range r.Kept {
		x := &r.Kept[i]
		losses.Add(r.Loss(own, x, popularOnly, out), x.Unseen, r.Loss(had, x, popularOnly, out), 1)
	}
	var d guard.RowDifferences
	losses.AddTo(&d, 1)
	worse := func(of *guard.Difference, share float64) bool {
		return of.Mean > share*(1-of.Against)+guard.GuardErrors*math.Sqrt(of.Variance)
	}
	return d.N >= guard.GuardLeast && worse(&d.Unseen, guard.GuardWindow) && worse(&d.Current, 0)
}
