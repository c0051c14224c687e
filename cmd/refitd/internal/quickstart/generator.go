package quickstart

import (
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
)

// The stream is sized so that at 2,000 events/s half a minute is enough to learn it and to learn it again. A rating is
// a sum of a common level, a bias of the user, a bias of the item, a product of rank-4 taste vectors and noise, rounded
// to a level of 1..5. The standard deviations are in levels; the product has about half of the variance that can be
// explained.
const (
	startUsers = 800
	startItems = 300
	newUser    = 0.004 // probability that an event brings a new user: 8/s at 2,000 events/s
	newItem    = 0.001 // probability that an event brings a new item

	userSkew, userShift = 1.0, 10.0 // activity of rank r is (r+shift)^-skew (Zipf–Mandelbrot)
	itemSkew, itemShift = 1.0, 5.0

	levels      = 5
	commonLevel = 3.3
	userSpread  = 0.55
	itemSpread  = 0.55
	noiseSpread = 0.5

	// driftUsers is the share of users whose taste is redrawn, driftItems that of items whose bias is, when the taste
	// changes.
	driftUsers = 0.4
	driftItems = 0.4
)

// tasteSpread holds the standard deviation that each factor adds to a rating. Unequal ones make the first factors easy
// to find.
var tasteSpread = [...]float64{0.55, 0.4, 0.3, 0.2}

// Rating is one event of the stream.
type Rating struct {
	User, Item string
	Level      int   // 1..5
	TS         int64 // milliseconds since 1970, UTC
}

// Generator makes an endless rating stream with planted low-rank structure, skewed users and items, and new users and
// items all the time. On one platform the stream is a function of the seed and of the events before which Drift was
// called. Not safe for concurrent use.
type Generator struct {
	rng   *rand.Rand
	users population
	items population
}

// NewGenerator returns a generator with its first users and items.
func NewGenerator(seed uint64) *Generator {
	g := &Generator{
		rng:   rand.New(rand.NewPCG(seed, 0)),
		users: population{skew: userSkew, shift: userShift, ranks: startUsers},
		items: population{skew: itemSkew, shift: itemShift, ranks: startItems},
	}
	for range startUsers {
		g.addUser()
	}
	for range startItems {
		g.addItem()
	}
	return g
}

// Next returns the next rating, with the time stamp ts in milliseconds since 1970, UTC.
func (g *Generator) Next(ts int64) Rating {
	var user, item int
	if g.rng.Float64() < newUser {
		user = g.addUser()
	} else {
		user = g.users.draw(g.rng)
	}
	if g.rng.Float64() < newItem {
		item = g.addItem()
	} else {
		item = g.items.draw(g.rng)
	}
	score := g.score(user, item) + noiseSpread*g.rng.NormFloat64()
	return Rating{
		User:  "u" + strconv.Itoa(user),
		Item:  "i" + strconv.Itoa(item),
		Level: int(min(max(math.Round(score), 1), levels)),
		TS:    ts,
	}
}

// Drift changes the taste from the next rating on: many users get a new taste vector, many items a new bias.
func (g *Generator) Drift() {
	for i := range g.users.members {
		if g.rng.Float64() < driftUsers {
			g.users.members[i].taste = g.taste()
		}
	}
	for i := range g.items.members {
		if g.rng.Float64() < driftItems {
			g.items.members[i].bias = itemSpread * g.rng.NormFloat64()
		}
	}
}

// score is the rating before noise and rounding.
func (g *Generator) score(user, item int) float64 {
	u, i := &g.users.members[user], &g.items.members[item]
	s := commonLevel + u.bias + i.bias
	for r := range u.taste {
		s += tasteSpread[r] * u.taste[r] * i.taste[r]
	}
	return s
}

func (g *Generator) addUser() int {
	return g.users.add(g.rng, member{bias: userSpread * g.rng.NormFloat64(), taste: g.taste()})
}

func (g *Generator) addItem() int {
	return g.items.add(g.rng, member{bias: itemSpread * g.rng.NormFloat64(), taste: g.taste()})
}

// taste draws a vector of unit normals; score scales them.
func (g *Generator) taste() (t [len(tasteSpread)]float64) {
	for r := range t {
		t[r] = g.rng.NormFloat64()
	}
	return t
}

// member is a user or an item.
type member struct {
	bias  float64
	taste [len(tasteSpread)]float64
}

// population is a growing set of members that are drawn in proportion to a weight fixed when they came.
type population struct {
	skew, shift float64
	ranks       int // popularity ranks that a member draws from
	members     []member
	cumulative  []float64 // sum of the weights of the members up to and including this one
}

// add appends a member and returns its number. Its rank is drawn, so that newcomers are as unequal as those who were
// first.
func (p *population) add(rng *rand.Rand, m member) int {
	rank := float64(1 + rng.IntN(p.ranks))
	weight := math.Pow(rank+p.shift, -p.skew)
	if n := len(p.cumulative); n > 0 {
		weight += p.cumulative[n-1]
	}
	p.members = append(p.members, m)
	p.cumulative = append(p.cumulative, weight)
	return len(p.members) - 1
}

// draw returns the number of a member.
func (p *population) draw(rng *rand.Rand) int {
	at := rng.Float64() * p.cumulative[len(p.cumulative)-1]
	return min(sort.SearchFloat64s(p.cumulative, at), len(p.members)-1)
}
