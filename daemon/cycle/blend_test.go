package cycle

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// blendOf returns the blend of a model of ratings, and its target.
func blendOf(t *testing.T, task string) (*blend, *Target) {
	t.Helper()
	c := newCycle(t, ratingsModel(func(m *config.Model) {
		if m.Schema.Task = task; task == "regression" {
			m.Schema.Levels = 0
		}
	}))
	if c.blend == nil || len(c.blend.inputs) != len(blendFoldIns)+3 {
		t.Fatalf("blend %+v", c.blend)
	}
	return c.blend, c.target
}

// drawn returns inputs about 3, and a label: the first, the second and the fourth, from 3 on, with the given weights, and noise.
func drawn(r *rand.Rand, weights [3]float64, levels bool) (inputs []float64, label float64) {
	inputs = make([]float64, len(blendFoldIns)+3)
	common := r.NormFloat64()
	for i := range inputs {
		inputs[i] = 3 + common + 0.7*r.NormFloat64()
	}
	label = 3 + weights[0]*(inputs[0]-3) + weights[1]*(inputs[1]-3) + weights[2]*(inputs[3]-3) + 0.6*r.NormFloat64()
	if levels {
		label = min(max(math.Round(label), 1), 5)
	}
	return inputs, label
}

// TestBlendOfNumbers: a fit is the least squares of its events as they fade, held to one fold-in, solved directly.
func TestBlendOfNumbers(t *testing.T) {
	b, _ := blendOf(t, "regression")
	const unit, fade, n = 0.5, 0.99, 400
	f := &b.fits[0]
	slopes := []float64{1, 1, 1, 1, 1, 1}
	b.solve(f, []float64{0}, slopes, 1)
	if want := []float64{0, 1, 0, 0, 0, 0}; floats.Distance(f.weights.factors, want, math.Inf(1)) > 1e-12 || math.Abs(f.weights.constant[0]) > 1e-12 {
		t.Errorf("without events weights are %v, want %v", f.weights, want)
	}
	r := rand.New(rand.NewPCG(1, 2))
	p := len(b.inputs) + 1
	normal, right := mat.NewSymDense(p, nil), mat.NewVecDense(p, nil)
	for range n {
		var label float64
		b.inputs, label = drawn(r, [3]float64{0.5, 0.3, 0.4}, false)
		x := mat.NewVecDense(p, append([]float64{1}, b.inputs...))
		normal.ScaleSym(fade, normal)
		normal.SymRankOne(normal, 1/unit, x)
		right.ScaleVec(fade, right)
		right.AddScaledVec(right, label/unit, x)
		b.add(f, fade, label, []float64{label}, unit)
	}
	normal.SetSym(0, 0, normal.At(0, 0)+1)
	for i := 1; i < p; i++ {
		right.SetVec(i, right.AtVec(i)+1)
		for j := i; j < p; j++ {
			normal.SetSym(i, j, normal.At(i, j)+1)
		}
		if i != 1+1 {
			normal.SetSym(i, i, normal.At(i, i)+blendHold)
		}
	}
	var want mat.VecDense
	if err := want.SolveVec(normal, right); err != nil {
		t.Fatal(err)
	}
	w, ok := b.solution(f, []float64{0}, slopes, []float64{blendHold, 0, blendHold, blendHold, blendHold, blendHold})
	if !ok || floats.Distance(w, want.RawVector().Data, math.Inf(1)) > 1e-9 {
		t.Errorf("weights %v, by least squares %v", w, want.RawVector().Data)
	}
	b.solve(f, []float64{0}, slopes, 1)
	if f.weights.factors[2] != 0 || math.Abs(f.weights.factors[0]-0.5) > 0.15 || math.Abs(f.weights.factors[3]-0.4) > 0.15 {
		t.Errorf("weights %v of .5, .3, none and .4", f.weights.factors)
	}
}

// TestBlendOfLevels: steps of one event each come to predict as well as the weights that are best for all events together, better than the fold-in that they
// are held to, and a fold-in that says nothing is left out.
func TestBlendOfLevels(t *testing.T) {
	b, target := blendOf(t, "ordinal")
	r := rand.New(rand.NewPCG(3, 4))
	f, m := &b.fits[1], b.outputs
	start, slopes := newLevelLink(m, 0.9), []float64{1, 1.9, 1.9, 1.9, 1.9, 1.9}
	b.solve(f, start.Threshold, slopes, 1)
	alone := *f.weights
	const n = 12_000
	inputs, labels := make([][]float64, n), make([]float64, n)
	targets := make([]float64, m)
	for i := range inputs {
		inputs[i], labels[i] = drawn(r, [3]float64{0.5, 0.3, 0.4}, true)
		b.inputs = inputs[i]
		target.Encode(targets, &event.Event{Label: labels[i]})
		b.add(f, blendFades[1], labels[i], targets, 1)
		if (i+1)%blendEvery == 0 {
			b.solve(f, start.Threshold, slopes, 1)
		}
	}
	mean := func(w *blendWeights) (sum float64) {
		for i := range inputs {
			b.inputs = inputs[i]
			target.Encode(targets, &event.Event{Label: labels[i]})
			sum += b.loss(w, labels[i], targets, 1) / n
		}
		return sum
	}
	best := &blendWeights{constant: slices.Clone(f.weights.constant), factors: slices.Clone(f.weights.factors)}
	for range 2000 { // by gradient
		constant, factors := make([]float64, m), make([]float64, len(slopes))
		for i := 0; i < n; i += 4 {
			b.inputs = inputs[i]
			target.Encode(targets, &event.Event{Label: labels[i]})
			for c, y := range targets {
				e := (1/(1+math.Exp(-b.output(best, c))) - (y+1)/2) / (n / 4)
				constant[c] += e
				floats.AddScaled(factors, e, b.inputs)
			}
		}
		floats.AddScaled(best.constant, -1, constant)
		floats.AddScaled(best.factors, -0.3, factors)
	}
	got, least, held := mean(f.weights), mean(best), mean(&alone)
	if t.Logf("loss %.4f, best %.4f, of the fold-in alone %.4f; weights %.2f", got, least, held, f.weights.factors); got > least*1.003 || got > 0.9*held {
		t.Errorf("loss %.4f, best %.4f, of the fold-in alone %.4f", got, least, held)
	}
	if f.weights.factors[2] != 0 || !(f.weights.factors[0] < 0) {
		t.Errorf("weights %v", f.weights.factors)
	}
	b.inputs = inputs[0]
	if number := b.number(f.weights); number < 1 || number > 5 {
		t.Errorf("level %g", number)
	}
}

// TestBlendMoves: weights are not said to be behind while labels follow the same law, and are soon after another one begins; then the fit that forgets faster
// counts. What says nothing finite is no event.
func TestBlendMoves(t *testing.T) {
	c := newCycle(t, ratingsModel(nil))
	b, r := c.blend, rand.New(rand.NewPCG(5, 6))
	observe := func(weights [3]float64) {
		var label float64
		b.inputs, label = drawn(r, weights, true)
		b.ready = isFinite(b.inputs)
		c.target.Encode(c.targets, &event.Event{Label: label})
		c.mixture.scale.add(0.5)
		c.learnBlend(label)
	}
	for range 12_000 {
		observe([3]float64{0.5, 0.3, 0.4})
	}
	moved := 0
	for i := range 20_000 {
		if i%1000 == 0 {
			b.use(b.best().weights)
		}
		if observe([3]float64{0.5, 0.3, 0.4}); b.moved(blendErrors) {
			moved++
		}
	}
	if moved > 1000 {
		t.Errorf("behind after %d of 20,000 events of the same law", moved)
	}
	at, events := 0, b.events
	for i := range 2000 {
		if observe([3]float64{0.1, -0.3, 0.2}); at == 0 && b.moved(blendErrors) {
			at = i
		}
	}
	if at == 0 || at > 1000 || b.best() != &b.fits[0] {
		t.Errorf("behind %d events after another law has begun", at)
	}
	b.ready = false
	if c.learnBlend(3); b.events != events+2000 {
		t.Errorf("%d events, want %d", b.events, events+2000)
	}
}

// TestBlendGoesOn: what a fold-in counted for goes with it where it goes on as another part, so that outputs are the same.
func TestBlendGoesOn(t *testing.T) {
	for _, was := range []updateForm{formNumbers, formFoldIn} {
		b, _ := blendOf(t, "ordinal")
		from := slices.Index(blendForms[:], was)
		for i := range b.fits {
			b.fits[i].weights = &blendWeights{constant: make([]float64, b.outputs), factors: []float64{-1, -0.5, -0.25, 0.1, 0.2, 0.3}}
		}
		b.inputs = []float64{3, 2, 2, 1, 1, 1}
		if was == formFoldIn {
			b.inputs = []float64{2, 2, 2, 1, 1, 1}
		}
		b.alone[from].add(0.3)
		before := b.output(b.fits[0].weights, 0)
		b.use(b.fits[0].weights)
		b.goOn(was)
		for i := from; i < 2; i++ {
			b.inputs[i] = 100 // another
		}
		if after := b.output(b.fits[0].weights, 0); math.Abs(after-before) > 1e-12 || b.used != nil || b.alone[2].mean() != 0.3 {
			t.Errorf("was %d: output %g, before %g; used %v", was, after, before, b.used)
		}
	}
	(*blend)(nil).goOn(formFoldIn)
}

// TestUpdatesAreBlends: where items change, fold-ins from before and after it and baselines predict best together: updates come to be sums, and what consumers
// have predicts better than without, at the lag of deltas.
func TestUpdatesAreBlends(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	events := append(stream(5, 4000), stream(77, 4000)...)
	run := func(with bool) (loss float64, blends int) {
		m := ratingsModel(nil)
		m.Publish.Deltas = config.Deltas{Every: config.Duration(time.Second), MaxRows: 1000}
		c := newCycle(t, m)
		if !with {
			c.blend = nil
		}
		for i := 0; i < len(events); i += 20 {
			if i > 0 && i%1000 == 0 {
				c.Install(refit(t, c, sampleOf(events[:i])))
			}
			if i%200 == 0 || c.AsksUpdate() {
				if u, _ := c.NextUpdate(); u != nil {
					if c.PublishUpdate(u); c.race.chosen == formBlend {
						blends++
					}
				}
			}
			had := c.progressive.sums.All[published]
			observeAll(c, events[i:i+20])
			if i >= 2000 {
				loss += c.progressive.sums.All[published].Square - had.Square
			}
			c.TakeDelta(time.UnixMilli(int64(i)))
			for c.Delta() != nil {
				c.PublishDelta()
			}
		}
		for _, p := range c.Progressive().Parts {
			if p.Name == "sgd_bias" && p.InVersions != (c.race.chosen == formBlend) || p.Name == "last_label" && p.InVersions {
				t.Errorf("updates of %s: %s in versions: %t", formParts[c.race.chosen], p.Name, p.InVersions)
			}
		}
		return loss, blends
	}
	without, none := run(false)
	loss, blends := run(true)
	if t.Logf("published loss %.1f with blends (%d updates), %.1f without", loss, blends, without); blends < 5 || none > 0 || !(loss < without) {
		t.Errorf("published loss %.1f with blends (%d updates), %.1f without", loss, blends, without)
	}
}

// BenchmarkBlend learns one event of five levels.
func BenchmarkBlend(b *testing.B) {
	c, err := New(ratingsModel(nil), time.Now)
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 8))
	c.blend.inputs, _ = drawn(r, [3]float64{0.5, 0.3, 0.4}, true)
	c.blend.ready = true
	c.mixture.scale.add(0.5)
	c.target.Encode(c.targets, &event.Event{Label: 4})
	b.ReportAllocs()
	for b.Loop() {
		c.learnBlend(4)
	}
}

// TestBlendAsks: an update of another form is made anew for a blend that is better by enough alone, one of a blend for weights that have moved.
func TestBlendAsks(t *testing.T) {
	c := newCycle(t, ratingsModel(nil))
	c.blend.events = blendEvents
	c.blend.alone[0], c.blend.alone[1] = fading{rate: mixtureFade, sum: 1, n: 1}, fading{rate: mixtureFade, sum: 1, n: 1}
	behind := slices.Repeat([]float64{0.1, 0.2}, blendLeast)
	for _, test := range []struct {
		form     updateForm
		has      bool // a blend is followed
		square   float64
		advances []float64
		want     bool
	}{
		{formBlend, true, 0.999, behind, true}, {formBlend, true, 1.001, behind, false}, {formBlend, true, 0.9, nil, false},
		{formFoldIn, true, 0.9, behind, true}, {formFoldIn, true, 0.999, behind, false}, {formFoldIn, true, 0.9, nil, false},
		{formFoldIn, false, 0.9, behind, false},
	} {
		f := &following{form: test.form}
		if test.has {
			f.forms[formBlend] = new(follower)
		}
		c.blend.squares, c.blend.advances = fading{rate: mixtureFade, sum: test.square, n: 1}, test.advances
		if got := c.blendAsks(f, blendErrors); got != test.want {
			t.Errorf("form %d, blend %t at %g with %d advances: %t", test.form, test.has, test.square, len(test.advances), got)
		}
	}
}
