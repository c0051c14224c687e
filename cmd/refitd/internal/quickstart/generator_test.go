package quickstart

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/mat"
)

const testRate = 2000 // events/s of the quickstart, used to read event counts as seconds

// rated is a rating as numbers, with the expected level that the generator had in mind.
type rated struct {
	user, item int
	level      float64
	expected   float64
}

func nextRated(t *testing.T, g *Generator) rated {
	t.Helper()
	r := g.Next(0)
	user, item := idNumber(t, r.User), idNumber(t, r.Item)
	return rated{user, item, float64(r.Level), expectedLevel(g.score(user, item))}
}

// expectedLevel is the mean of the rounded and clipped score over the noise: the best prediction there is.
func expectedLevel(score float64) float64 {
	e := 1.0
	for c := 1; c < levels; c++ { // E[level] = 1 + Σ_c P(level > c)
		e += 0.5 * math.Erfc((float64(c)+0.5-score)/(noiseSpread*math.Sqrt2))
	}
	return e
}

func TestGeneratorIsAFunctionOfItsSeed(t *testing.T) {
	const n, driftAt = 5000, 3000
	stream := func(seed uint64, drift bool) (out []Rating) {
		g := NewGenerator(seed)
		for i := range n {
			if drift && i == driftAt {
				g.Drift()
			}
			out = append(out, g.Next(int64(i)))
		}
		return out
	}
	base := stream(1, true)
	if !slices.Equal(base, stream(1, true)) {
		t.Error("the same seed gives two streams")
	}
	if slices.Equal(base, stream(2, true)) {
		t.Error("two seeds give one stream")
	}
	still := stream(1, false)
	if !slices.Equal(base[:driftAt], still[:driftAt]) || slices.Equal(base[driftAt:], still[driftAt:]) {
		t.Errorf("Drift before event %d must change the events from there on and no other", driftAt)
	}
	for i, r := range base {
		if r.TS != int64(i) || r.Level < 1 || r.Level > levels {
			t.Fatalf("event %d: %+v", i, r)
		}
	}
}

func TestDriftRedrawsTastesAndItemBiases(t *testing.T) {
	g := NewGenerator(1)
	users, items := slices.Clone(g.users.members), slices.Clone(g.items.members)
	g.Drift()
	var redrawn struct{ userBias, userTaste, itemBias, itemTaste int }
	count := func(n *int, changed bool) {
		if changed {
			*n++
		}
	}
	for i, m := range g.users.members {
		count(&redrawn.userBias, m.bias != users[i].bias)
		count(&redrawn.userTaste, m.taste != users[i].taste)
	}
	for i, m := range g.items.members {
		count(&redrawn.itemBias, m.bias != items[i].bias)
		count(&redrawn.itemTaste, m.taste != items[i].taste)
	}
	within := func(n int, share, of float64) bool {
		return math.Abs(float64(n)-share*of) < 4*math.Sqrt(of*share*(1-share))
	}
	if redrawn.userBias != 0 || redrawn.itemTaste != 0 || !within(redrawn.userTaste, driftUsers, startUsers) ||
		!within(redrawn.itemBias, driftItems, startItems) {
		t.Errorf("redrawn %+v, want about %v of %d user tastes, about %v of %d item biases and nothing else", redrawn,
			driftUsers, startUsers, driftItems, startItems)
	}
}

// TestStreamShape checks what a reader of the topic sees: all levels occur, few users and items make most of the
// events, new ones keep coming.
func TestStreamShape(t *testing.T) {
	const n = 40_000
	g := NewGenerator(1)
	var byLevel [levels + 1]int
	users, items := map[string]int{}, map[string]int{}
	lateUsers, lateItems := 0, 0 // first seen in the last quarter, with a number that was not there at the start
	for i := range n {
		r := g.Next(0)
		byLevel[r.Level]++
		if users[r.User] == 0 && i > n*3/4 && idNumber(t, r.User) >= startUsers {
			lateUsers++
		}
		if items[r.Item] == 0 && i > n*3/4 && idNumber(t, r.Item) >= startItems {
			lateItems++
		}
		users[r.User]++
		items[r.Item]++
	}
	share := func(counts map[string]int) float64 {
		sorted := slices.Sorted(maps.Values(counts))
		top := 0
		for _, c := range sorted[len(sorted)*9/10:] {
			top += c
		}
		return float64(top) / n
	}
	t.Logf(
		"levels %v; busiest tenth: %.2f of the events by user, %.2f by item; new in the last quarter: %d users, %d items",
		byLevel[1:],
		share(users),
		share(items),
		lateUsers,
		lateItems,
	)
	for c := 1; c <= levels; c++ {
		if byLevel[c] < n/50 {
			t.Errorf("level %d occurs %d times in %d", c, byLevel[c], n)
		}
	}
	if share(users) < 0.25 || share(items) < 0.25 {
		t.Errorf("the busiest tenth of users and items has %.2f and %.2f of the events, want at least 0.25",
			share(users), share(items))
	}
	if lateUsers < 20 || lateItems < 4 {
		t.Errorf("in the last quarter %d new users and %d new items came, want at least 20 and 4", lateUsers, lateItems)
	}
}

// idNumber returns the number in an id such as u17.
func idNumber(t *testing.T, id string) int {
	t.Helper()
	n, err := strconv.Atoi(id[1:])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// mean is a running mean.
type mean struct{ sum, n float64 }

func (m *mean) add(v float64) { m.sum += v; m.n++ }

func (m *mean) of(prior float64) float64 {
	if m.n == 0 {
		return prior
	}
	return m.sum / m.n
}

// biasSGD is per-event SGD on global, user and item biases with the steps of the contract's sgd_bias.
type biasSGD struct {
	global     float64
	user, item map[int]float64
}

func newBiasSGD() *biasSGD {
	return &biasSGD{global: 3, user: map[int]float64{}, item: map[int]float64{}}
}

func (b *biasSGD) predict(r rated) float64 { return b.global + b.user[r.user] + b.item[r.item] }

func (b *biasSGD) learn(r rated) {
	const step, shrink = 0.05, 0.02
	e := r.level - b.predict(r)
	b.global += step * e
	b.user[r.user] += step * (e - shrink*b.user[r.user])
	b.item[r.item] += step * (e - shrink*b.item[r.item])
}

func squaredError(pred, level float64) float64 {
	d := math.Min(math.Max(pred, 1), levels) - level
	return d * d
}

// TestStreamLeavesRoom measures what the generator promises: item means beat the global mean, biases beat item means,
// and the noise floor is far enough below for a factorization to show.
func TestStreamLeavesRoom(t *testing.T) {
	for seed := range uint64(3) {
		g := NewGenerator(seed + 1)
		var global mean
		items := map[int]*mean{}
		sgd := newBiasSGD()
		var mse struct{ global, item, sgd, floor mean }
		for n := range 40_000 {
			r := nextRated(t, g)
			if items[r.item] == nil {
				items[r.item] = &mean{}
			}
			if n >= 20_000 { // the second half, as a window of 20,000 would show it
				mse.global.add(squaredError(global.of(3), r.level))
				mse.item.add(squaredError(items[r.item].of(global.of(3)), r.level))
				mse.sgd.add(squaredError(sgd.predict(r), r.level))
				mse.floor.add(squaredError(r.expected, r.level))
			}
			global.add(r.level)
			items[r.item].add(r.level)
			sgd.learn(r)
		}
		rmse := func(m mean) float64 { return math.Sqrt(m.of(0)) }
		gl, it, sg, fl := rmse(mse.global), rmse(mse.item), rmse(mse.sgd), rmse(mse.floor)
		t.Logf("seed %d: rmse global mean %.3f, item mean %.3f, bias SGD %.3f, floor %.3f; users %d, items %d", seed+1,
			gl, it, sg, fl, len(g.users.members), len(g.items.members))
		const margin = 0.05
		if gl < it+margin || it < sg+margin || sg < fl+4*margin {
			t.Errorf(
				"seed %d: want global mean > item mean > bias SGD > floor with margins %.2f, %.2f, %.2f; got %.3f, %.3f, "+
					"%.3f, %.3f",
				seed+1,
				margin,
				margin,
				4*margin,
				gl,
				it,
				sg,
				fl,
			)
		}
	}
}

// factorization is a batch learner of the same form as the planted one, fitted by ridge-penalised alternating least
// squares on a weighted list of events. It takes the place of the daemon: what it reaches, a refit can reach.
type factorization struct {
	rank       int
	ridge      float64
	global     float64
	user, item map[int][]float64 // bias first, then the taste; length rank+1
}

func newFactorization() *factorization {
	return &factorization{rank: 4, ridge: 3, global: 3, user: map[int][]float64{}, item: map[int][]float64{}}
}

func (f *factorization) predict(r rated) float64 {
	u, i := f.user[r.user], f.item[r.item]
	p := f.global
	if u != nil {
		p += u[0]
	}
	if i != nil {
		p += i[0]
	}
	if u != nil && i != nil {
		for k := 1; k <= f.rank; k++ {
			p += u[k] * i[k]
		}
	}
	return p
}

// refit runs sweeps of alternating least squares, warm; weight has one number per event.
func (f *factorization) refit(events []rated, weight []float64, sweeps int, rng *rand.Rand) {
	var level, total float64
	byUser, byItem := map[int][]int{}, map[int][]int{}
	for n, r := range events {
		level += weight[n] * r.level
		total += weight[n]
		byUser[r.user] = append(byUser[r.user], n)
		byItem[r.item] = append(byItem[r.item], n)
		f.greet(f.user, r.user, rng)
		f.greet(f.item, r.item, rng)
	}
	f.global = level / total
	item := func(n int) []float64 { return f.item[events[n].item] }
	user := func(n int) []float64 { return f.user[events[n].user] }
	for range sweeps {
		f.solve(f.user, byUser, item, events, weight)
		f.solve(f.item, byItem, user, events, weight)
	}
	f.solve(f.user, byUser, item, events, weight)
}

// greet gives a newcomer a small random taste.
func (f *factorization) greet(side map[int][]float64, id int, rng *rand.Rand) {
	if side[id] != nil {
		return
	}
	side[id] = make([]float64, f.rank+1)
	for k := 1; k <= f.rank; k++ {
		side[id][k] = 0.3 * rng.NormFloat64()
	}
}

// solve stores in dst[id] the ridge solution over rows[id], the other side's vectors being fixed.
func (f *factorization) solve(dst map[int][]float64, rows map[int][]int, other func(n int) []float64, events []rated,
	weight []float64) {
	d := f.rank + 1
	for id, ns := range rows {
		a, b, x := make([]float64, d*d), make([]float64, d), make([]float64, d)
		for k := range d {
			a[k*d+k] = f.ridge
		}
		for _, n := range ns {
			w, o := weight[n], other(n)
			copy(x, o)
			x[0] = 1
			e := events[n].level - f.global - o[0]
			for k := range d {
				b[k] += w * e * x[k]
				for l := k; l < d; l++ {
					a[k*d+l] += w * x[k] * x[l]
				}
			}
		}
		var chol mat.Cholesky
		if chol.Factorize(mat.NewSymDense(d, a)) {
			_ = chol.SolveVecTo(
				mat.NewVecDense(d, dst[id]),
				mat.NewVecDense(d, b),
			) // its error warns of ill conditioning, which the ridge excludes
		}
	}
}

// TestStreamCanBeLearned drives the daemon's cycle in small: score, keep, refit every 5,000 events on a sample that
// forgets with a half-life of 8 s. The factorization must beat bias SGD after 30,000 events, and be back within 5 %
// 50,000 events after the change.
func TestStreamCanBeLearned(t *testing.T) {
	const (
		refitEvery = 5_000
		window     = 20_000
		driftAt    = 50_000
		end        = 110_000
		halfLife   = 8 * testRate
	)
	g := NewGenerator(1)
	f, sgd, rng := newFactorization(), newBiasSGD(), rand.New(rand.NewPCG(2, 0))
	var events []rated
	var fErr, sErr, floor []float64
	last := func(errs []float64) float64 {
		var m mean
		for _, e := range errs[max(0, len(errs)-window):] {
			m.add(e)
		}
		return math.Sqrt(m.of(0))
	}
	var before float64
	recovered := -1
	for n := range end {
		if n == driftAt {
			g.Drift()
			before = last(fErr)
		}
		r := nextRated(t, g)
		fErr = append(fErr, squaredError(f.predict(r), r.level))
		sErr = append(sErr, squaredError(sgd.predict(r), r.level))
		floor = append(floor, squaredError(r.expected, r.level))
		sgd.learn(r)
		events = append(events, r)
		if (n+1)%refitEvery != 0 {
			continue
		}
		recent := events[max(0, len(events)-4*halfLife):]
		weight := make([]float64, len(recent))
		for k := range weight {
			weight[k] = math.Exp2(float64(k+1-len(recent)) / halfLife)
		}
		f.refit(recent, weight, 2, rng)
		t.Logf("%5.1f s: rmse published %.3f, bias SGD %.3f, floor %.3f", float64(n+1)/testRate, last(fErr), last(sErr),
			last(floor))
		switch {
		case n+1 == 30_000 && last(fErr) > last(sErr):
			t.Errorf("after %d events the factorization has %.3f, bias SGD %.3f", n+1, last(fErr), last(sErr))
		case n+1 == driftAt+10_000 && last(fErr) < 1.1*before:
			t.Errorf("the change is not seen: window rmse %.3f before it, %.3f after 10,000 events", before, last(fErr))
		case n > driftAt && recovered < 0 && last(fErr) <= 1.05*before && n+1 >= driftAt+window:
			recovered = n + 1 - driftAt
		}
	}
	if recovered < 0 || recovered > 50_000 {
		t.Errorf("recovered %d events after the change (-1: never), want at most 50,000", recovered)
	}
	t.Logf("recovered after %d events", recovered)
}
