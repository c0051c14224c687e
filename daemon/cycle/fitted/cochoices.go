package fitted

import (
	"cmp"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/snapshot/format"
)

// Names are similar as items where the same entities choose them: each choice is counted with those that its entity
// made last. Lists of versions put names higher that go with what was chosen last (format.CoChoices). By which
// half-life, how much, and whether at all is what would have listed the last choices best.
// The span, the half-life and the prior are tuned on lastfm and choices with seed 1; the others are chosen by hand.
const (
	// coChoiceWindow is with how many earlier choices of its entity a choice is counted, and coChoiceSpan by how many of
	// them the weight of a pair halves.
	coChoiceWindow = 20
	coChoiceSpan   = 10
	// recentChoices is how many choices of an entity are kept.
	recentChoices = 32
	// coChoiceLife is the place in popularityLives of the half-life of pairs.
	coChoiceLife = 4
	// coChoiceRest is how many choices may pass before the pairs of a name fade.
	coChoiceRest = 256
	// coChoicePairs bounds the pairs of all names together, unless a name has leastNeighbours.
	coChoicePairs                   = 1 << 20
	leastNeighbours, mostNeighbours = 8, 48
)

// The ways in which co-choices can count in lists are each half-life with each prior and each weight, after not at all.
// A prior is how many choices are added to those of either name in a lift: pairs of rare names say little.
// Tuned on lastfm with seeds 3 and 4 and on choices with seed 3.
var (
	coChoiceHalfLives = [...]float64{2, 6, 32}
	coChoicePriors    = [...]float64{5, 20}
	coChoiceWeights   = [...]float64{0.1, 0.3, 1}
)

// Sums of lifts are by prior, then by half-life; ways are by sum, then by weight.
const (
	numCoChoiceSums = len(coChoicePriors) * len(coChoiceHalfLives)
	numCoChoiceWays = numCoChoiceSums * len(coChoiceWeights)
)

// coChoiceWay is one of the ways.
type coChoiceWay struct{ halfLife, prior, weight float64 }

// wayAt returns the way with a number.
func wayAt(way int) coChoiceWay {
	sum := way / len(coChoiceWeights)
	return coChoiceWay{
		halfLife: coChoiceHalfLives[sum%len(coChoiceHalfLives)],
		prior:    coChoicePriors[sum/len(coChoiceHalfLives)],
		weight:   coChoiceWeights[way%len(coChoiceWeights)],
	}
}

// How the ways are judged. Chosen by hand.
const (
	// Of choices of names that were chosen before, the first judgedFirst and then every judgedEvery-th say how well each
	// way lists.
	judgedFirst, judgedEvery = 2048, 4
	// judgedPlaces is how far lists are looked at.
	judgedPlaces = 100
	// judgedFade is how what such choices say fades from one to the next.
	judgedFade = 0.9995
	// judgedErrors is by how many standard errors a way has to list better than none.
	judgedErrors = 1
)

// near is a name that was chosen with another one.
type near struct {
	of *NameCounts
	n  float32 // how often, as it has faded
}

// chooser is what an entity has chosen.
type chooser struct {
	last   float64       // when, in choices
	recent []*NameCounts // oldest first
}

// coChoices are the pairs of names that Popularity counts.
type coChoices struct {
	by       int // the field of who chooses; -1 for nobody
	kept     int // pairs of a name
	choosers map[string]*chooser

	judging bool // whether choices say how well each way lists
	turn    int
	popular []*NameCounts // the most popular names some choices ago
	listed  float64       // when these were listed, in choices
	mark    int           // of the last choice that was judged
	touched []*NameCounts
	n       float64
	gains   [numCoChoiceWays]float64 // losses of none less those of a way, fading
	squares [numCoChoiceWays]float64
}

// newCoChoices returns those of a model whose events choose names of a field.
func newCoChoices(m *config.Model, field int) coChoices {
	c := coChoices{by: -1, judging: true, choosers: make(map[string]*chooser)}
	for _, name := range m.Train.FoldIn.By {
		if f := slices.Index(m.Schema.Categorical, name); f != field && c.by < 0 {
			c.by = f
		}
	}
	c.kept = Neighbours(m.Train.FoldIn.MaxRows)
	return c
}

// Neighbours returns how many pairs of a name are kept, of as many names.
func Neighbours(names int) int {
	return min(max(coChoicePairs/max(names, 1), leastNeighbours), mostNeighbours)
}

// CoChoiceBytes returns what pairs and choices of as many names and entities take, and what two versions have of them.
func CoChoiceBytes(names, maxName int) int64 {
	const (
		pairBytes    = 16 // half as many again while there is room
		versionBytes = 8 + 8
		countBytes   = 96 // of a name in addition to its pairs
		chooserBytes = 128 + recentChoices*(8+2*4)
	)
	each := countBytes + Neighbours(names)*(pairBytes*3/2+2*versionBytes) + chooserBytes + 2*maxName
	return int64(names) * int64(each)
}

// together counts a choice of a name with those that its entity made last.
func (p *Popularity) together(of *NameCounts, ev *event.Event) {
	c := &p.pairs
	if c.by < 0 || ev.Categorical[c.by] == "" {
		return
	}
	who := p.chooser(ev.Categorical[c.by])
	for i, other := range slices.Backward(who.recent[max(0, len(who.recent)-coChoiceWindow):]) {
		if other == of || other.gone {
			continue
		}
		weight := float32(math.Exp2(-float64(len(who.recent)-1-i) / coChoiceSpan))
		of.join(other, weight, p.Now, c.kept)
		other.join(of, weight, p.Now, c.kept)
	}
	if who.last = p.Now; len(who.recent) == recentChoices {
		who.recent = slices.Delete(who.recent, 0, 1)
	}
	who.recent = append(who.recent, of)
}

// chooser returns what an entity has chosen. Where there are as many entities as there may be, the half goes that chose
// least recently.
func (p *Popularity) chooser(name string) *chooser {
	c := &p.pairs
	who := c.choosers[name]
	if who != nil {
		return who
	}
	if len(c.choosers) >= p.limit {
		times := make([]float64, 0, len(c.choosers))
		for _, other := range c.choosers {
			times = append(times, other.last)
		}
		slices.Sort(times)
		for name, other := range c.choosers {
			if other.last <= times[len(times)/2] {
				delete(c.choosers, name)
			}
		}
	}
	who = new(chooser)
	c.choosers[name] = who
	return who
}

// join adds to how often a name was chosen with another one, of which the most frequent are kept.
func (c *NameCounts) join(other *NameCounts, weight float32, now float64, kept int) {
	if passed := now - c.nearAt; passed >= coChoiceRest {
		fade := float32(math.Exp2(-passed / popularityLives[coChoiceLife]))
		for i := range c.near {
			c.near[i].n *= fade
		}
		c.nearAt = now
	}
	for i := range c.near {
		if c.near[i].of == other {
			c.near[i].n += weight
			return
		}
	}
	if len(c.near) >= kept*3/2 {
		c.near = slices.DeleteFunc(c.near, func(x near) bool { return x.of.gone })
		c.sortNear()
		c.near = c.near[:min(len(c.near), kept)]
	}
	c.near = append(c.near, near{other, weight})
}

// sortNear puts the names first that were chosen most often.
func (c *NameCounts) sortNear() {
	slices.SortFunc(c.near, func(a, b near) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.of.Name, b.of.Name))
	})
}

// coLift is how many times as often as if choices were independent two names were chosen by the same entities.
func coLift(pairs, own, other, total, prior float64) float64 {
	return pairs * total / ((own + prior) * (other + prior))
}

// Judge says whether choices from now on say how well each way lists.
func (p *Popularity) Judge(on bool) { p.pairs.judging = on }

// judge has a choice that was not counted yet say how well each way would have listed it. Its place is that among the
// most popular names and those that go with what its entity chose last.
func (p *Popularity) judge(of *NameCounts, ev *event.Event) {
	c := &p.pairs
	if !c.judging || c.by < 0 {
		return
	}
	who := c.choosers[ev.Categorical[c.by]]
	if who == nil || len(who.recent) == 0 || slices.Contains(who.recent, of) {
		return
	}
	if c.turn++; c.turn > judgedFirst && c.turn%judgedEvery != 0 {
		return
	}
	share := p.relativeShare()
	p.listPopular(share)
	c.mark++
	p.touch(who)
	var own [numCoChoiceWays]float64
	base := share(of)
	of.lifted(&own, base, c.mark)
	var places [numCoChoiceWays]int
	place := 0
	compare := func(other *NameCounts) {
		if other == of || other.gone || slices.Contains(who.recent, other) {
			return
		}
		value := share(other)
		if value > base {
			place++
		}
		if other.mark != c.mark && value <= base {
			return // no way puts it before
		}
		var lifted [numCoChoiceWays]float64
		other.lifted(&lifted, value, c.mark)
		for way := range places {
			if lifted[way] > own[way] {
				places[way]++
			}
		}
	}
	for _, other := range c.touched {
		compare(other)
	}
	for _, other := range c.popular {
		if other.mark != c.mark {
			compare(other)
		}
	}
	c.n = judgedFade*c.n + 1
	for way := range places {
		gain := judgedLoss(place) - judgedLoss(places[way])
		c.gains[way] = judgedFade*c.gains[way] + gain
		c.squares[way] = judgedFade*c.squares[way] + gain*gain
	}
}

// judgedLoss is that of a choice with so many names before it in a list.
func judgedLoss(before int) float64 {
	if before >= judgedPlaces {
		return 1
	}
	return 1 - 1/math.Log2(float64(before)+2)
}

// listPopular lists the most popular names anew where a share of all names has been chosen since.
func (p *Popularity) listPopular(likely func(*NameCounts) float64) {
	const share, least = 16, 256
	c := &p.pairs
	if p.Now-c.listed < float64(max(least, len(p.List)/share)) && c.popular != nil {
		return
	}
	weights := make(map[*NameCounts]float64, len(p.List))
	for _, of := range p.List {
		weights[of] = likely(of)
	}
	all := slices.Clone(p.List)
	slices.SortStableFunc(all, func(a, b *NameCounts) int { return cmp.Compare(weights[b], weights[a]) })
	c.popular, c.listed = slices.Clone(all[:min(len(all), 2*judgedPlaces)]), p.Now
}

// touch sums, by half-life, the lifts of the names that go with what an entity chose last.
func (p *Popularity) touch(who *chooser) {
	c := &p.pairs
	c.touched = c.touched[:0]
	p.totals.to(p.Now)
	total := p.totals.n[coChoiceLife]
	for i, x := range slices.Backward(who.recent) {
		var weights [len(coChoiceHalfLives)]float64
		for h, life := range coChoiceHalfLives {
			weights[h] = math.Exp2(-float64(len(who.recent)-1-i) / life)
		}
		x.to(p.Now)
		faded := math.Exp2(-(p.Now - x.nearAt) / popularityLives[coChoiceLife])
		for _, pair := range x.near {
			if pair.of.gone {
				continue
			}
			if pair.of.mark != c.mark {
				pair.of.to(p.Now)
				pair.of.mark, pair.of.sums = c.mark, [numCoChoiceSums]float64{}
				c.touched = append(c.touched, pair.of)
			}
			for k, prior := range coChoicePriors {
				lift := coLift(float64(pair.n)*faded, x.n[coChoiceLife], pair.of.n[coChoiceLife], total, prior)
				for h, weight := range weights {
					pair.of.sums[k*len(weights)+h] += weight * lift
				}
			}
		}
	}
}

// lifted stores how likely a name is in each way, given how likely it is in none.
func (c *NameCounts) lifted(to *[numCoChoiceWays]float64, share float64, mark int) {
	for way := range to {
		if to[way] = share; c.mark == mark {
			to[way] *= 1 + coChoiceWeights[way%len(coChoiceWeights)]*c.sums[way/len(coChoiceWeights)]
		}
	}
}

// way returns the way that has listed best, -1 for none.
func (c *coChoices) way() int {
	best := -1
	for way, gain := range c.gains {
		if gain > judgedErrors*math.Sqrt(c.squares[way]) && (best < 0 || gain > c.gains[best]) {
			best = way
		}
	}
	return best
}

// CoChoices are pairs of names, as versions have them. They do not change.
type CoChoices struct {
	By       int
	HalfLife float64
	Prior    float64 // choices that are added to those of a name in a lift
	Weight   float64
	Scale    float64 // that of the weights of popularity
	Total    float64
	Names    []string
	Counts   []float64
	Pairs    []CoChoicePair // of the first name, of the second, …
	Ends     []int32        // where in Pairs those of a name end
	Recent   map[string][]int32
}

// CoChoicePair is how often a name was chosen with another one.
type CoChoicePair struct {
	Other int32
	N     float32
}

// CoChoices returns the pairs so far, nil where lists are better without.
func (p *Popularity) CoChoices() *CoChoices {
	way := p.pairs.way()
	if way < 0 {
		return nil
	}
	p.totals.to(p.Now)
	by := wayAt(way)
	x := &CoChoices{
		By:       p.pairs.by,
		HalfLife: by.halfLife,
		Prior:    by.prior,
		Weight:   by.weight,
		Scale:    1,
		Total:    p.totals.n[coChoiceLife],
		Names:    make([]string, 0, len(p.List)),
		Counts:   make([]float64, 0, len(p.List)),
		Ends:     make([]int32, 0, len(p.List)),
		Recent:   make(map[string][]int32, len(p.pairs.choosers)),
	}
	for i, of := range p.List {
		of.to(p.Now)
		of.place = int32(i)
		x.Names, x.Counts = append(x.Names, of.Name), append(x.Counts, of.n[coChoiceLife])
	}
	for _, of := range p.List {
		faded := float32(math.Exp2(-(p.Now - of.nearAt) / popularityLives[coChoiceLife]))
		for _, pair := range of.near {
			if !pair.of.gone {
				x.Pairs = append(x.Pairs, CoChoicePair{pair.of.place, pair.n * faded})
			}
		}
		x.Ends = append(x.Ends, int32(len(x.Pairs)))
	}
	for name, who := range p.pairs.choosers {
		list := make([]int32, 0, len(who.recent))
		for _, of := range who.recent {
			if place := of.place; !of.gone {
				list = append(list, place)
			} else {
				list = append(list, -1)
			}
		}
		x.Recent[name] = list
	}
	return x
}

// contents returns what a version over a vocabulary has of the pairs.
func (x *CoChoices) contents(schema *event.Schema, over int, v *encode.Vocabulary) *format.CoChoices {
	if x == nil {
		return nil
	}
	out := &format.CoChoices{
		Over:       schema.Categorical[over],
		By:         schema.Categorical[x.By],
		HalfLife:   x.HalfLife,
		Weight:     x.Weight,
		Scale:      x.Scale,
		Neighbours: make([][]format.Neighbour, len(v.Names[over])),
		Recent:     make([][]int32, len(v.Names[x.By])),
	}
	at := make(map[string]int32, len(v.Names[over]))
	for i, name := range v.Names[over] {
		at[name] = int32(i)
	}
	places := make([]int32, len(x.Names))
	for i, name := range x.Names {
		if place, ok := at[name]; ok {
			places[i] = place
		} else {
			places[i] = -1
		}
	}
	begin := int32(0)
	for i, end := range x.Ends {
		pairs := x.Pairs[begin:end]
		begin = end
		if places[i] < 0 {
			continue
		}
		list := make([]format.Neighbour, 0, len(pairs))
		for _, pair := range pairs {
			lift := float32(coLift(float64(pair.N), x.Counts[i], x.Counts[pair.Other], x.Total, x.Prior))
			if places[pair.Other] >= 0 && lift > 0 {
				list = append(list, format.Neighbour{Place: places[pair.Other], Lift: lift})
			}
		}
		slices.SortFunc(list, func(a, b format.Neighbour) int {
			return cmp.Or(cmp.Compare(b.Lift, a.Lift), cmp.Compare(a.Place, b.Place))
		})
		out.Neighbours[places[i]] = list[:min(len(list), format.MaxNeighbours)]
	}
	for i, name := range v.Names[x.By] {
		for _, place := range x.Recent[name] {
			if place >= 0 {
				place = places[place]
			}
			out.Recent[i] = append(out.Recent[i], place)
		}
	}
	return out
}
