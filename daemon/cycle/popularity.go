package cycle

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
)

// popularity is how likely each name is chosen next, whoever chooses: shares of the choices so far, which fade by several half-lives, mixed as well as each
// has foreseen choices. Models of choices learn what is beyond it, as negatives are as popular as what was chosen; versions add it as weights of the names.
type popularity struct {
	field   int
	limit   int  // of names
	follows bool // fields are functions of names
	names   map[string]*nameCounts
	list    []*nameCounts // of names, in the order of their first choices
	totals  nameCounts
	now     float64                       // in choices
	logs    [len(popularityLives)]float64 // of the probabilities of the choices, fading
}

// popularityLives are the half-lives, in choices. The last is next to none.
var popularityLives = [...]float64{250, 1000, 4000, 16_000, 64_000, 1 << 24}

const (
	// popularityPrior is how many choices count for each name beside its own: Krichevsky and Trofimov's half.
	popularityPrior = 0.5
	// popularityFade is how the logarithms fade by which half-lives are mixed.
	popularityFade = 0.999
	// popularityMoves is by how much the weight of a name has to move before a delta has it: a twentieth of its odds.
	popularityMoves = 0.05
	// popularityTurn is how many names that were not chosen since a delta looks at, so that their choices fade there.
	popularityTurn = 4096
	// popularityAlike is how many choices count as one in that: choices that follow each other are alike, and a mixture errs less than what it mixes.
	popularityAlike = 8
)

// nameCounts are the choices of a name that have not faded, by half-life.
type nameCounts struct {
	name   string
	first  *event.Event // that chose it, where fields follow from names
	chosen float64      // when it was chosen last
	at     float64      // when the counts were as follows
	n      [len(popularityLives)]float64
}

// newPopularity returns that of a model whose events are choices, nil for one whose events have labels.
func newPopularity(m *config.Model) *popularity {
	field := m.ChosenField()
	if field < 0 {
		return nil
	}
	return &popularity{field: field, limit: m.Train.FoldIn.MaxRows, follows: len(m.Schema.Of) > 0, names: make(map[string]*nameCounts)}
}

// to lets the counts fade up to a moment.
func (c *nameCounts) to(now float64) {
	if passed := now - c.at; passed > 0 {
		for h, life := range popularityLives {
			c.n[h] *= math.Exp2(-passed / life)
		}
		c.at = now
	}
}

// choose takes up the choice of an event, which comes after those before; nothing of one that was not chosen.
func (p *popularity) choose(ev *event.Event) { p.chooseAt(ev, p.now+1) }

// chooseAt is choose at a moment, in choices.
func (p *popularity) chooseAt(ev *event.Event, now float64) {
	if !(ev.Label > 0) {
		return
	}
	name := ev.Categorical[p.field]
	if p.now = max(p.now, now); len(p.names) == 0 {
		p.totals.at = p.now
	}
	p.totals.to(p.now)
	of := p.names[name]
	if of == nil {
		p.makeRoom()
		of = &nameCounts{name: name, at: p.now}
		if p.names[name], p.list = of, append(p.list, of); p.follows {
			of.first = copyOf(ev)
		}
	} else { // a new name was foreseen by none
		of.to(p.now)
		for h := range p.logs {
			p.logs[h] = popularityFade*p.logs[h] + math.Log(p.share(of, h))
		}
	}
	of.chosen = p.now
	for h := range of.n {
		of.n[h]++
		p.totals.n[h]++
	}
}

// share is the probability of a name by one half-life.
func (p *popularity) share(of *nameCounts, h int) float64 {
	return (of.n[h] + popularityPrior) / (p.totals.n[h] + popularityPrior*float64(len(p.names)+1))
}

// makeRoom gives up half of the names, those chosen least, where there are as many as there may be.
func (p *popularity) makeRoom() {
	if len(p.names) < p.limit {
		return
	}
	last := len(popularityLives) - 1
	counts := make([]float64, 0, len(p.names))
	for _, of := range p.names {
		of.to(p.now)
		counts = append(counts, of.n[last])
	}
	slices.Sort(counts)
	least := counts[len(counts)/2]
	p.list = slices.DeleteFunc(p.list, func(of *nameCounts) bool {
		if of.n[last] > least {
			return false
		}
		delete(p.names, of.name)
		for h := range of.n {
			p.totals.n[h] = max(0, p.totals.n[h]-of.n[h])
		}
		return true
	})
}

// likely returns a function for the logarithm of how many times as likely as the mean name a name is chosen next.
func (p *popularity) likely() func(of *nameCounts) float64 {
	var mix [len(popularityLives)]float64
	best, total := slices.Max(p.logs[:]), 0.0
	for h := range mix {
		mix[h] = math.Exp((p.logs[h] - best) / popularityAlike)
		total += mix[h]
	}
	p.totals.to(p.now)
	return func(of *nameCounts) (r float64) {
		of.to(p.now)
		for h := range mix {
			r += mix[h] / total * p.share(of, h)
		}
		return math.Log(r * float64(max(len(p.names), 1)))
	}
}

// weights returns what is likely as weights: shared is that of a name that was never chosen, to which those of the others are added.
func (p *popularity) weights() *popularWeights {
	likely := p.likely()
	w := &popularWeights{Field: p.field, Shared: likely(&nameCounts{}), Names: make(map[string]float64, len(p.names)), at: p.now}
	for _, of := range p.list {
		w.Names[of.name] = likely(of) - w.Shared
	}
	return w
}

// moved returns the weights after w, in which at most limit names have others, and those names, in the order of their first choices. They are of names chosen
// since and of some others in turn, as far as their weights have moved.
func (p *popularity) moved(w *popularWeights, limit int) (next *popularWeights, names []string) {
	likely, turns := p.likely(), 1+len(p.list)/popularityTurn
	next = &popularWeights{Field: w.Field, Shared: likely(&nameCounts{}), Names: w.Names, at: p.now, turn: w.turn + 1, since: maps.Clone(w.since)}
	for i, of := range p.list {
		if len(names) >= limit {
			break
		}
		if of.chosen <= w.at && i%turns != next.turn%turns {
			continue
		}
		if weight := likely(of) - next.Shared; !(math.Abs(weight-w.name(of.name)) < popularityMoves) {
			if next.since == nil {
				next.since = make(map[string]float64)
			}
			next.since[of.name] = weight
			names = append(names, of.name)
		}
	}
	return next, names
}

// popularWeights is a popularity as weights of a model on the log odds of a choice beside names drawn alike. It does not change.
type popularWeights struct {
	Field  int
	Shared float64
	Names  map[string]float64

	since map[string]float64 // those of Names that are others by now, and new names
	at    float64            // when the choices were counted, in choices; 0 of another process
	turn  int                // how often it has moved
}

// of returns what the weights say of an event.
func (w *popularWeights) of(ev *event.Event) float64 {
	return w.Shared + w.name(ev.Categorical[w.Field])
}

// within returns what a model with the weights has of them in an event: nothing for a name that it does not know.
func (w *popularWeights) within(model *snapshot.Model, ev *event.Event) float64 {
	if _, ok := model.Column(w.Field, ev.Categorical[w.Field]); !ok {
		return w.Shared
	}
	return w.of(ev)
}

// name returns the weight of a name.
func (w *popularWeights) name(name string) float64 {
	if weight, ok := w.since[name]; ok {
		return weight
	}
	return w.Names[name]
}

// on returns a model over a vocabulary with the weights; of the parameters it shares what is the same. Without weights it is the model.
func (w *popularWeights) on(model *solver.Model, v *Vocabulary) *solver.Model {
	return w.times(1, model, v)
}

// off is the inverse of on.
func (w *popularWeights) off(model *solver.Model, v *Vocabulary) *solver.Model {
	return w.times(-1, model, v)
}

func (w *popularWeights) times(sign float64, model *solver.Model, v *Vocabulary) *solver.Model {
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
		out.Linear[int(v.Column(w.Field, name))*m] += sign * w.name(name)
	}
	return &out
}

// countChoices counts the choices of a sample, oldest first: of the training rows for what is judged on held-out ones, of all rows for versions.
func (j *refitJob) countChoices(train, selected, gate []event.Event) {
	if j.model.ChosenField() < 0 {
		return
	}
	type choice struct {
		of  *event.Event
		age float64
	}
	count := func(parts ...[]event.Event) *popularWeights {
		ages := [][]float64{j.sample.TrainAge, j.sample.SelectAge, j.sample.GateAge}
		var list []choice
		for i, part := range parts {
			for k := range part {
				if c := (choice{of: &part[k]}); c.of.Label > 0 {
					if len(ages[i]) == len(part) {
						c.age = ages[i][k]
					}
					list = append(list, c)
				}
			}
		}
		slices.SortStableFunc(list, func(a, b choice) int { return cmp.Compare(b.age, a.age) })
		p := newPopularity(j.model)
		if len(list) > 0 {
			p.now = -list[0].age // of the oldest
		}
		for _, c := range list {
			p.chooseAt(c.of, -c.age)
		}
		return p.weights()
	}
	j.popularLearned, j.popularAll = count(train), count(train, selected, gate)
}
