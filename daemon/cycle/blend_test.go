package cycle

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// blendOf returns the blend of a model of ratings, and its target.
func blendOf(t *testing.T, task string) (*mixture.StackedUpdate, *encode.Target) {
	t.Helper()
	c := newCycle(t, cycletest.RatingsModel(func(m *config.Model) {
		if m.Schema.Task = task; task == "regression" {
			m.Schema.Levels = 0
		}
	}))
	if c.ensemble.stacked == nil || len(c.ensemble.stacked.Inputs) != len(mixture.BlendFoldIns)+3 {
		t.Fatalf("blend %+v", c.ensemble.stacked)
	}
	return c.ensemble.stacked, c.target
}

// drawn returns inputs about 3, and a label: the first, the second and the fourth, from 3 on, with the given weights,
// and noise.
func drawn(r *rand.Rand, weights [3]float64, levels bool) (inputs []float64, label float64) {
	inputs = make([]float64, len(mixture.BlendFoldIns)+3)
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
	f := &b.Fits[0]
	slopes := []float64{1, 1, 1, 1, 1, 1}
	b.Solve(f, []float64{0}, slopes, 1)
	if want := []float64{0, 1, 0, 0, 0, 0}; floats.Distance(f.Weights.Factors, want, math.Inf(1)) > 1e-12 ||
		math.Abs(f.Weights.Constant[0]) > 1e-12 {
		t.Errorf("without events weights are %v, want %v", f.Weights, want)
	}
	r := rand.New(rand.NewPCG(1, 2))
	p := len(b.Inputs) + 1
	normal, right := mat.NewSymDense(p, nil), mat.NewVecDense(p, nil)
	for range n {
		var label float64
		b.Inputs, label = drawn(r, [3]float64{0.5, 0.3, 0.4}, false)
		x := mat.NewVecDense(p, append([]float64{1}, b.Inputs...))
		normal.ScaleSym(fade, normal)
		normal.SymRankOne(normal, 1/unit, x)
		right.ScaleVec(fade, right)
		right.AddScaledVec(right, label/unit, x)
		b.Add(f, fade, label, []float64{label}, unit)
	}
	normal.SetSym(0, 0, normal.At(0, 0)+1)
	for i := 1; i < p; i++ {
		right.SetVec(i, right.AtVec(i)+1)
		for j := i; j < p; j++ {
			normal.SetSym(i, j, normal.At(i, j)+1)
		}
		if i != 1+1 {
			normal.SetSym(i, i, normal.At(i, i)+mixture.BlendHold)
		}
	}
	var want mat.VecDense
	if err := want.SolveVec(normal, right); err != nil {
		t.Fatal(err)
	}
	w, ok := b.Solution(f, []float64{0}, slopes,
		[]float64{mixture.BlendHold, 0, mixture.BlendHold, mixture.BlendHold, mixture.BlendHold, mixture.BlendHold})
	if !ok || floats.Distance(w, want.RawVector().Data, math.Inf(1)) > 1e-9 {
		t.Errorf("weights %v, by least squares %v", w, want.RawVector().Data)
	}
	b.Solve(f, []float64{0}, slopes, 1)
	if f.Weights.Factors[2] != 0 || math.Abs(f.Weights.Factors[0]-0.5) > 0.15 ||
		math.Abs(f.Weights.Factors[3]-0.4) > 0.15 {
		t.Errorf("weights %v of .5, .3, none and .4", f.Weights.Factors)
	}
}

// TestBlendOfLevels: steps of one event each come to predict as well as the weights that are best for all events
// together, better than the fold-in that they are held to, and a fold-in that says nothing is left out.
func TestBlendOfLevels(t *testing.T) {
	b, target := blendOf(t, "ordinal")
	r := rand.New(rand.NewPCG(3, 4))
	f, m := &b.Fits[1], b.Outputs
	start, slopes := encode.NewLevelLink(m, 0.9), []float64{1, 1.9, 1.9, 1.9, 1.9, 1.9}
	b.Solve(f, start.Threshold, slopes, 1)
	alone := *f.Weights
	const n = 12_000
	inputs, labels := make([][]float64, n), make([]float64, n)
	targets := make([]float64, m)
	for i := range inputs {
		inputs[i], labels[i] = drawn(r, [3]float64{0.5, 0.3, 0.4}, true)
		b.Inputs = inputs[i]
		target.Encode(targets, &event.Event{Label: labels[i]})
		b.Add(f, mixture.StackedFades[1], labels[i], targets, 1)
		if (i+1)%mixture.BlendEvery == 0 {
			b.Solve(f, start.Threshold, slopes, 1)
		}
	}
	mean := func(w *mixture.StackedWeights) (sum float64) {
		for i := range inputs {
			b.Inputs = inputs[i]
			target.Encode(targets, &event.Event{Label: labels[i]})
			sum += b.Loss(w, labels[i], targets, 1) / n
		}
		return sum
	}
	best := &mixture.StackedWeights{
		Constant: slices.Clone(f.Weights.Constant),
		Factors:  slices.Clone(f.Weights.Factors),
	}
	for range 2000 { // by gradient
		constant, factors := make([]float64, m), make([]float64, len(slopes))
		for i := 0; i < n; i += 4 {
			b.Inputs = inputs[i]
			target.Encode(targets, &event.Event{Label: labels[i]})
			for c, y := range targets {
				e := (1/(1+math.Exp(-b.Output(best, c))) - (y+1)/2) / (n / 4)
				constant[c] += e
				floats.AddScaled(factors, e, b.Inputs)
			}
		}
		floats.AddScaled(best.Constant, -1, constant)
		floats.AddScaled(best.Factors, -0.3, factors)
	}
	got, least, held := mean(f.Weights), mean(best), mean(&alone)
	if t.Logf("loss %.4f, best %.4f, of the fold-in alone %.4f; weights %.2f", got, least, held,
		f.Weights.Factors); got > least*1.003 ||
		got > 0.9*held {
		t.Errorf("loss %.4f, best %.4f, of the fold-in alone %.4f", got, least, held)
	}
	if f.Weights.Factors[2] != 0 || !(f.Weights.Factors[0] < 0) {
		t.Errorf("weights %v", f.Weights.Factors)
	}
	b.Inputs = inputs[0]
	if number := b.Number(f.Weights); number < 1 || number > 5 {
		t.Errorf("level %g", number)
	}
}

// TestBlendMoves: weights are not said to be behind while labels follow the same law, and are soon after another one
// begins; then the fit that forgets faster counts. What says nothing finite is no event.
func TestBlendMoves(t *testing.T) {
	c := newCycle(t, cycletest.RatingsModel(nil))
	b, r := c.ensemble.stacked, rand.New(rand.NewPCG(5, 6))
	observe := func(weights [3]float64) {
		var label float64
		b.Inputs, label = drawn(r, weights, true)
		b.Ready = encode.IsFinite(b.Inputs)
		c.target.Encode(c.ensemble.targets, &event.Event{Label: label})
		c.ensemble.mixture.Scale.Add(0.5)
		c.ensemble.learnStacked(label)
	}
	for range 12_000 {
		observe([3]float64{0.5, 0.3, 0.4})
	}
	moved := 0
	for i := range 20_000 {
		if i%1000 == 0 {
			b.Use(b.Best().Weights)
		}
		if observe([3]float64{0.5, 0.3, 0.4}); b.Moved(mixture.BlendErrors) {
			moved++
		}
	}
	if moved > 1000 {
		t.Errorf("behind after %d of 20,000 events of the same law", moved)
	}
	at, events := 0, b.Events
	for i := range 2000 {
		if observe([3]float64{0.1, -0.3, 0.2}); at == 0 && b.Moved(mixture.BlendErrors) {
			at = i
		}
	}
	if at == 0 || at > 1000 || b.Best() != &b.Fits[0] {
		t.Errorf("behind %d events after another law has begun", at)
	}
	b.Ready = false
	if c.ensemble.learnStacked(3); b.Events != events+2000 {
		t.Errorf("%d events, want %d", b.Events, events+2000)
	}
}

// TestBlendCarriesOver: where a fold-in becomes another part, its weight moves with it, so that outputs stay the same.
func TestBlendCarriesOver(t *testing.T) {
	for _, was := range []string{experts.PartGaussian, mixture.PartFoldIn} {
		b, _ := blendOf(t, "ordinal")
		from := slices.Index(mixture.BlendFoldIns[:], was)
		for i := range b.Fits {
			b.Fits[i].Weights = &mixture.StackedWeights{
				Constant: make([]float64, b.Outputs),
				Factors:  []float64{-1, -0.5, -0.25, 0.1, 0.2, 0.3},
			}
		}
		b.Inputs = []float64{3, 2, 2, 1, 1, 1}
		if was == mixture.PartFoldIn {
			b.Inputs = []float64{2, 2, 2, 1, 1, 1}
		}
		b.Alone[from].Add(0.3)
		before := b.Output(b.Fits[0].Weights, 0)
		b.Use(b.Fits[0].Weights)
		b.CarryOver(was)
		for i := from; i < 2; i++ {
			b.Inputs[i] = 100 // another
		}
		if after := b.Output(b.Fits[0].Weights, 0); math.Abs(after-before) > 1e-12 || b.Used != nil ||
			mixture.Mean(&b.Alone[2]) != 0.3 {
			t.Errorf("was %s: output %g, before %g; used %v", was, after, before, b.Used)
		}
	}
	(*mixture.StackedUpdate)(nil).CarryOver(mixture.PartFoldIn)
}

// TestUpdatesAreBlends: where items change, fold-ins from before and after it and baselines predict best together:
// updates come to be sums, and what consumers have predicts better than without, at the lag of deltas.
func TestUpdatesAreBlends(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	events := append(cycletest.Stream(5, 4000), cycletest.Stream(77, 4000)...)
	run := func(with bool) (loss float64, blends int) {
		m := cycletest.RatingsModel(nil)
		m.Publish.Deltas = config.Deltas{Every: config.Duration(time.Second), MaxRows: 1000}
		c := newCycle(t, m)
		if !with {
			c.ensemble.stacked = nil
		}
		for i := 0; i < len(events); i += 20 {
			if i > 0 && i%1000 == 0 {
				c.Install(mustRefit(t, c, sampleOf(events[:i])))
			}
			if i%200 == 0 || c.AsksUpdate() {
				if u, _ := c.NextUpdate(); u != nil {
					if c.publisher.PublishUpdate(u); c.publisher.race.Chosen == mixture.FormBlend {
						blends++
					}
				}
			}
			had := c.progress.progressive.Sums.All[evaluate.Published]
			observeAll(c, events[i:i+20])
			if i >= 2000 {
				loss += c.progress.progressive.Sums.All[evaluate.Published].Square - had.Square
			}
			c.TakeDelta(time.UnixMilli(int64(i)))
			for c.publisher.Delta() != nil {
				c.publisher.PublishDelta()
			}
		}
		for _, p := range c.Progressive().Parts {
			if p.Name == "sgd_bias" && p.InVersions != (c.publisher.race.Chosen == mixture.FormBlend) ||
				p.Name == "last_label" && p.InVersions {
				t.Errorf("updates of %s: %s in versions: %t", variants[c.publisher.race.Chosen].name, p.Name,
					p.InVersions)
			}
		}
		return loss, blends
	}
	without, none := run(false)
	loss, blends := run(true)
	if t.Logf("published loss %.1f with blends (%d updates), %.1f without", loss, blends, without); blends < 5 ||
		none > 0 ||
		!(loss < without) {
		t.Errorf("published loss %.1f with blends (%d updates), %.1f without", loss, blends, without)
	}
}

// BenchmarkBlend learns one event of five levels.
func BenchmarkBlend(b *testing.B) {
	c, err := New(cycletest.RatingsModel(nil), time.Now)
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 8))
	c.ensemble.stacked.Inputs, _ = drawn(r, [3]float64{0.5, 0.3, 0.4}, true)
	c.ensemble.stacked.Ready = true
	c.ensemble.mixture.Scale.Add(0.5)
	c.target.Encode(c.ensemble.targets, &event.Event{Label: 4})
	b.ReportAllocs()
	for b.Loop() {
		c.ensemble.learnStacked(4)
	}
}

// TestBlendAsks: an update of another form is made anew for a blend that is better by enough alone, one of a blend for
// weights that have moved.
func TestBlendAsks(t *testing.T) {
	c := newCycle(t, cycletest.RatingsModel(nil))
	c.ensemble.stacked.Events = mixture.BlendEvents
	c.ensemble.stacked.Alone[0], c.ensemble.stacked.Alone[1] = evaluate.Fading{
		Rate: mixture.MixtureFade,
		Sum:  1,
		N:    1,
	}, evaluate.Fading{
		Rate: mixture.MixtureFade,
		Sum:  1,
		N:    1,
	}
	behind := slices.Repeat([]float64{0.1, 0.2}, mixture.BlendLeast)
	for _, test := range []struct {
		form     mixture.Variant
		has      bool // deltas of a blend are made
		square   float64
		advances []float64
		want     bool
	}{
		{mixture.FormBlend, true, 0.999, behind, true}, {mixture.FormBlend, true, 1.001, behind, false}, {mixture.FormBlend,
			true, 0.9, nil, false},
		{mixture.FormFoldIn, true, 0.9, behind, true}, {mixture.FormFoldIn, true, 0.999, behind, false}, {mixture.FormFoldIn,
			true, 0.9, nil, false},
		{mixture.FormFoldIn, false, 0.9, behind, false},
	} {
		f := &updates.DeltaStream{Form: test.form}
		if test.has {
			f.Forms[mixture.FormBlend] = new(updates.DeltaEncoder)
		}
		c.ensemble.stacked.Squares, c.ensemble.stacked.Advances = evaluate.Fading{
			Rate: mixture.MixtureFade,
			Sum:  test.square,
			N:    1,
		}, test.advances
		if got := c.ensemble.stackedAsks(f, mixture.BlendErrors); got != test.want {
			t.Errorf("form %d, blend %t at %g with %d advances: %t", test.form, test.has, test.square,
				len(test.advances), got)
		}
	}
}
