package fitted

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
)

// PopularAlone returns a model that says nothing.
func PopularAlone(like *solver.Model) *solver.Model {
	return solver.NewModel(like.Kernel, like.NumFeatures, like.NumOutputs, true)
}

// Popularity is how likely each name is chosen next, by any chooser: shares of the choices so far, which fade by
// several half-lives, mixed as well as each has foreseen choices. Models of choices learn what is beyond it, as
// negatives are as popular as what was chosen; versions add it as weights of the names.
type Popularity struct {
	field   int
	limit   int  // of names
	follows bool // fields are functions of names
	Names   map[string]*NameCounts
	List    []*NameCounts // of names, in the order of their first choices
	totals  NameCounts
	Now     float64                       // in choices
	logs    [len(popularityLives)]float64 // of the probabilities of the choices, fading
	pairs   coChoices
}

// popularityLives are the half-lives, in choices. The last is next to none. Chosen by hand: a factor of 4 apart.
var popularityLives = [...]float64{250, 1000, 4000, 16_000, 64_000, 1 << 24}

// Literature: popularityPrior (Krichevsky and Trofimov 1981). The others are chosen by hand.
const (
	// popularityPrior is how many choices are added to those of each name: Krichevsky and Trofimov's half.
	popularityPrior = 0.5
	// popularityFade is how the logarithms fade by which half-lives are mixed.
	popularityFade = 0.999
	// PopularityMoves is by how much the weight of a name has to move before a delta has it: a twentieth of its odds.
	PopularityMoves = 0.05
	// popularityTurn is how many names that were not chosen since a delta looks at, so that their choices fade there.
	popularityTurn = 4096
	// popularityAlike is how many choices count as one in that: choices that follow each other are alike, and a mixture
	// errs less than what it mixes.
	popularityAlike = 8
)

// NameCounts are the choices of a name that have not faded, by half-life.
type NameCounts struct {
	Name   string
	First  *event.Event // that chose it, where fields follow from names
	chosen float64      // when it was chosen last
	at     float64      // when the counts were as follows
	n      [len(popularityLives)]float64

	gone   bool   // given up: others may have it in their pairs
	near   []near // that entities chose with it
	nearAt float64
	// Working memory of judge and CoChoices.
	mark  int
	sums  [numCoChoiceSums]float64
	place int32
}

// NewPopularity returns that of a model whose events are choices, nil for one whose events have labels.
func NewPopularity(m *config.Model) *Popularity {
	field := m.ChosenField()
	if field < 0 {
		return nil
	}
	return &Popularity{
		field:   field,
		limit:   m.Train.FoldIn.MaxRows,
		follows: len(m.Schema.Of) > 0,
		Names:   make(map[string]*NameCounts),
		pairs:   newCoChoices(m, field),
	}
}

// to lets the counts fade up to a moment.
func (c *NameCounts) to(now float64) {
	if passed := now - c.at; passed > 0 {
		for h, life := range popularityLives {
			c.n[h] *= math.Exp2(-passed / life)
		}
		c.at = now
	}
}

// Choose takes up the choice of an event, which comes after those before; nothing of one that was not chosen.
func (p *Popularity) Choose(ev *event.Event) { p.ChooseAt(ev, p.Now+1) }

// ChooseAt is choose at a moment, in choices.
func (p *Popularity) ChooseAt(ev *event.Event, now float64) {
	if !(ev.Label > 0) {
		return
	}
	name := ev.Categorical[p.field]
	if p.Now = max(p.Now, now); len(p.Names) == 0 {
		p.totals.at = p.Now
	}
	p.totals.to(p.Now)
	of := p.Names[name]
	if of == nil {
		p.makeRoom()
		of = &NameCounts{Name: name, at: p.Now}
		if p.Names[name], p.List = of, append(p.List, of); p.follows {
			of.First = rows.CopyOf(ev)
		}
	} else { // a new name was foreseen by none
		p.judge(of, ev)
		of.to(p.Now)
		for h := range p.logs {
			p.logs[h] = popularityFade*p.logs[h] + math.Log(p.share(of, h))
		}
	}
	of.chosen = p.Now
	for h := range of.n {
		of.n[h]++
		p.totals.n[h]++
	}
	p.together(of, ev)
}

// share is the probability of a name by one half-life.
func (p *Popularity) share(of *NameCounts, h int) float64 {
	return (of.n[h] + popularityPrior) / (p.totals.n[h] + popularityPrior*float64(len(p.Names)+1))
}

// makeRoom gives up half of the names, those chosen least, where there are as many as there may be.
func (p *Popularity) makeRoom() {
	if len(p.Names) < p.limit {
		return
	}
	last := len(popularityLives) - 1
	counts := make([]float64, 0, len(p.Names))
	for _, of := range p.Names {
		of.to(p.Now)
		counts = append(counts, of.n[last])
	}
	slices.Sort(counts)
	least := counts[len(counts)/2]
	p.List = slices.DeleteFunc(p.List, func(of *NameCounts) bool {
		if of.n[last] > least {
			return false
		}
		delete(p.Names, of.Name)
		of.gone, of.near = true, nil
		for h := range of.n {
			p.totals.n[h] = max(0, p.totals.n[h]-of.n[h])
		}
		return true
	})
}

// likely returns a function for the logarithm of relativeShare.
func (p *Popularity) likely() func(of *NameCounts) float64 {
	share := p.relativeShare()
	return func(of *NameCounts) float64 { return math.Log(share(of)) }
}

// relativeShare returns a function for how many times as likely as the mean name a name is chosen next.
func (p *Popularity) relativeShare() func(of *NameCounts) float64 {
	var mix [len(popularityLives)]float64
	best, total := slices.Max(p.logs[:]), 0.0
	for h := range mix {
		mix[h] = math.Exp((p.logs[h] - best) / popularityAlike)
		total += mix[h]
	}
	p.totals.to(p.Now)
	return func(of *NameCounts) (r float64) {
		of.to(p.Now)
		for h := range mix {
			r += mix[h] / total * p.share(of, h)
		}
		return r * float64(max(len(p.Names), 1))
	}
}

// Weights returns what is likely as weights: shared is that of a name that was never chosen, to which those of the
// others are added.
func (p *Popularity) Weights() *PopularWeights {
	likely := p.likely()
	w := &PopularWeights{
		Field:     p.field,
		Shared:    likely(&NameCounts{}),
		Names:     make(map[string]float64, len(p.Names)),
		CoChoices: p.CoChoices(),
		at:        p.Now,
	}
	for _, of := range p.List {
		w.Names[of.Name] = likely(of) - w.Shared
	}
	return w
}

// Moved returns the weights after w, in which at most limit names have others, and those names, in the order of their
// first choices. They are of names chosen since and of some others in turn, as far as their weights have moved.
func (p *Popularity) Moved(w *PopularWeights, limit int) (next *PopularWeights, names []string) {
	likely, turns, scale := p.likely(), 1+len(p.List)/popularityTurn, cmp.Or(w.Scale, 1)
	rare := likely(&NameCounts{})
	next = &PopularWeights{
		Scale:     w.Scale,
		Offset:    w.Offset,
		Field:     w.Field,
		Shared:    scale*rare + w.Offset,
		Names:     w.Names,
		CoChoices: w.CoChoices,
		at:        p.Now,
		turn:      w.turn + 1,
		since:     maps.Clone(w.since),
	}
	for i, of := range p.List {
		if len(names) >= limit {
			break
		}
		if of.chosen <= w.at && i%turns != next.turn%turns {
			continue
		}
		weight := scale * (likely(of) - rare)
		if !(math.Abs(weight-w.Name(of.Name)) < scale*PopularityMoves) {
			if next.since == nil {
				next.since = make(map[string]float64)
			}
			next.since[of.Name] = weight
			names = append(names, of.Name)
		}
	}
	return next, names
}

// PopularWeights is a popularity as weights of a model: the log odds of a choice against names drawn uniformly. It does
// not change.
type PopularWeights struct {
	Field  int
	Shared float64
	Names  map[string]float64
	// CoChoices are what versions with the weights know of names that are chosen together; nil for nothing.
	CoChoices *CoChoices

	// What calibrates versions of popularity alone: Shared and Names are Scale times the logarithms, and Shared is by
	// Offset more. Scale 0 is 1.
	Scale, Offset float64

	since map[string]float64 // those of Names that are others by now, and new names
	at    float64            // when the choices were counted, in choices; 0 of another process
	turn  int                // how often it has moved
}

// Calibrated returns weights, which are not calibrated, with another scale and offset. Lists stay the same.
func (w *PopularWeights) Calibrated(scale, offset float64) *PopularWeights {
	next := *w
	next.Scale, next.Offset, next.Shared = scale, offset, scale*w.Shared+offset
	next.Names = make(map[string]float64, len(w.Names))
	for name, weight := range w.Names {
		next.Names[name] = scale * weight
	}
	if w.CoChoices != nil {
		pairs := *w.CoChoices
		pairs.Scale = scale
		next.CoChoices = &pairs
	}
	return &next
}

// As returns weights, which are not calibrated, calibrated as others are.
func (w *PopularWeights) As(other *PopularWeights) *PopularWeights {
	if other.Scale == 0 {
		return w
	}
	return w.Calibrated(other.Scale, other.Offset)
}

// Of returns what the weights say of an event.
func (w *PopularWeights) Of(ev *event.Event) float64 {
	return w.Shared + w.Name(ev.Categorical[w.Field])
}

// within returns what a model with the weights has of them in an event: nothing for a name that it does not know.
func (w *PopularWeights) within(model *snapshot.Model, ev *event.Event) float64 {
	if _, ok := model.Column(w.Field, ev.Categorical[w.Field]); !ok {
		return w.Shared
	}
	return w.Of(ev)
}

// Name returns the weight of a name.
func (w *PopularWeights) Name(name string) float64 {
	if weight, ok := w.since[name]; ok {
		return weight
	}
	return w.Names[name]
}

// on returns a model over a vocabulary with the weights; of the parameters it shares what is the same. Without weights
// it is the model.
func (w *PopularWeights) on(model *solver.Model, v *encode.Vocabulary) *solver.Model {
	return w.times(1, model, v)
}

// Off is the inverse of on.
func (w *PopularWeights) Off(model *solver.Model, v *encode.Vocabulary) *solver.Model {
	return w.times(-1, model, v)
}

func (w *PopularWeights) times(sign float64, model *solver.Model, v *encode.Vocabulary) *solver.Model {
	if w == nil {
		return model
	}
	out, m := *model, model.NumOutputs
	out.Bias, out.Linear = slices.Clone(model.Bias), slices.Clone(model.Linear)
	if out.Linear == nil {
		out.Linear = make([]float64, model.NumFeatures*m)
	}
	out.Bias[0] += sign * w.Shared
	for _, name := range v.Names[w.Field] {
		out.Linear[int(v.Column(w.Field, name))*m] += sign * w.Name(name)
	}
	return &out
}
