package cycle

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
)

// Updates of choices are compared by what lists are judged by: the place of what was chosen, before anything has learned it,
// among names that were chosen before, drawn alike, by 1 less 1/log2(1+place). Drawn as often as chosen they would be names
// that were chosen late, which newer counts put higher. Of choices that count in full every rankedEvery-th is judged.
const (
	rankedEvery = 8
	rankedNames = 100 // other than the one that was chosen
	rankedKept  = 100 // choices by which updates are guarded: a pass takes some milliseconds
)

// rankings are the choices by which updates are compared. It belongs to who holds the lock of the cycle.
type rankings struct {
	field   int // what is chosen
	follows struct{ categorical, numeric, multi []int }
	schema  *event.Schema
	seen    uint64         // choices that count
	kept    []rankedChoice // the last that were judged, the oldest at oldest once there are rankedKept
	oldest  int
}

// rankedChoice is a choice, the names among which it was judged, and the loss of what consumers had.
type rankedChoice struct {
	own    *event.Event
	others []*nameCounts
	unseen float64
}

// newRankings returns nil for a model whose events have labels.
func newRankings(m *config.Model, schema *event.Schema) *rankings {
	field := m.ChosenField()
	if field < 0 {
		return nil
	}
	r := &rankings{field: field, schema: schema}
	for _, list := range []struct {
		names []string
		to    *[]int
	}{{schema.Categorical[:schema.NumGiven()], &r.follows.categorical}, {schema.Numeric, &r.follows.numeric}, {schema.Multi, &r.follows.multi}} {
		for i, name := range list.names {
			if m.Schema.Follows(name, schema.Categorical[field]) {
				*list.to = append(*list.to, i)
			}
		}
	}
	return r
}

// among returns a choice with other names that were chosen before, each once.
func (r *rankings) among(ev *event.Event, names []*nameCounts) rankedChoice {
	x, rng := rankedChoice{own: copyOf(ev)}, rand.New(rand.NewPCG(r.seen, rankedNames))
	drawn := map[string]struct{}{ev.Categorical[r.field]: {}}
	for range 2 * rankedNames {
		of := names[rng.IntN(len(names))]
		if _, ok := drawn[of.name]; ok {
			continue
		}
		drawn[of.name] = struct{}{}
		if x.others = append(x.others, of); len(x.others) == rankedNames {
			break
		}
	}
	return x
}

// copyOf returns a copy of an event that shares nothing with it but names.
func copyOf(ev *event.Event) *event.Event {
	out := *ev
	out.Categorical, out.Numeric, out.Multi = slices.Clone(ev.Categorical), slices.Clone(ev.Numeric), make([][]string, len(ev.Multi))
	for f := range ev.Multi {
		out.Multi[f] = slices.Clone(ev.Multi[f])
	}
	return &out
}

// with makes to the choice as it would be with another name, and what belongs to that.
func (r *rankings) with(to *event.Event, name *nameCounts) {
	to.Categorical[r.field] = name.name
	if other := name.first; other != nil {
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

// loss returns that of a choice in the list of a model: with its popularity, or of that alone. Names that the model does
// not know are in no list.
func (r *rankings) loss(s *scorer, x *rankedChoice, popularOnly bool, outputs []float64) float64 {
	score := func(ev *event.Event) float64 {
		name := ev.Categorical[r.field]
		if popularOnly && s.popular != nil {
			if weight := s.popular.name(name); weight != 0 {
				return weight
			}
			return math.Inf(-1)
		}
		if !s.knows(r.field, name) {
			return math.Inf(-1)
		}
		s.outputs(outputs, ev)
		if s.popular != nil {
			return outputs[0] + s.popular.of(ev)
		}
		return outputs[0]
	}
	own, place := score(x.own), 1.0
	if math.IsInf(own, -1) {
		return 1
	}
	scratch := copyOf(x.own)
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

// compareLists judges the lists of the newest update, in every form, and of the last refit by a choice that nothing has
// learned yet. c.mu is held.
func (c *Cycle) compareLists(ev *event.Event) {
	r := c.rankings
	if !(ev.Label > 0) {
		return
	}
	if r.seen++; r.seen%rankedEvery != 0 || len(c.popular.list) < 2 {
		return
	}
	p, x, outputs := c.prescorer, r.among(ev, c.popular.list), make([]float64, c.target.Outputs())
	p.take(c.published)
	only := c.champion.popularOnly
	x.unseen = r.loss(p.scorer, &x, only, outputs)
	of := func(s *scorer) float64 {
		if s == nil {
			return x.unseen
		}
		return r.loss(s, &x, only, outputs)
	}
	update := of(p.update)
	c.lag.add(update, of(p.refit), 1)
	if !only { // else all forms have the same lists
		var losses [numForms]float64
		for f := range losses {
			switch model := c.published.forms[f].model; model {
			case nil:
				losses[f] = math.NaN()
			case c.published.update.model:
				losses[f] = update
			default:
				losses[f] = of(p.forms[f])
			}
		}
		c.race.add(&losses, 1)
	}
	if len(r.kept) < rankedKept {
		r.kept = append(r.kept, x)
		return
	}
	r.kept[r.oldest] = x
	r.oldest = (r.oldest + 1) % rankedKept
}

// judgeUpdate returns why consumers may not have an update in place of what they have: of choices by the lists of the last
// choices that were judged, and where versions have more than popularity by the losses of guard. c.mu is held.
func (c *Cycle) judgeUpdate(update, current *frozen) HeldBack {
	if c.rankings == nil || c.champion == nil {
		return c.guard.judge(update, current)
	}
	only := c.champion.popularOnly
	if c.rankings.isWorse(update, current, only, c.target.Outputs()) {
		return HeldBackWindow
	}
	if only {
		return ""
	}
	return c.guard.judge(update, current)
}

// isWorse reports whether the lists of an update gain less than those that consumers have, on the last choices: by a
// share of the gain before these were learned, by guardErrors standard errors.
func (r *rankings) isWorse(update, current *frozen, popularOnly bool, outputs int) bool {
	var losses pairedLosses
	own, had, out := newFrozenScorer(update), newFrozenScorer(current), make([]float64, outputs)
	for i := range r.kept {
		x := &r.kept[i]
		losses.add(r.loss(own, x, popularOnly, out), x.unseen, r.loss(had, x, popularOnly, out), 1)
	}
	var d rowDifferences
	losses.addTo(&d, 1)
	worse := func(of *difference, share float64) bool {
		return of.mean > share*(1-of.against)+guardErrors*math.Sqrt(of.variance)
	}
	return d.n >= guardLeast && worse(&d.unseen, guardWindow) && worse(&d.current, 0)
}
