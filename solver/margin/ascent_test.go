package margin

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCapped compares the step of a loss with a single weight with that of any loss: from dual variables at 0, at a
// vertex and between, with rows of any length, equal scores and envelopes.
func TestCapped(t *testing.T) {
	random := rand.New(rand.NewPCG(24, 1))
	still, several, full := 0, 0, 0
	for round := range 20_000 {
		m := 2 + random.IntN(30)
		loss := Loss{Kind: WeightedUsunier, Weights: []float64{0.5 + random.Float64()}}
		if round%3 == 0 {
			loss.Moreau = math.Exp(-6 * random.Float64())
		}
		r, y, q := loss.rule(m), random.IntN(m), math.Exp(8*random.Float64()-7)
		fast, slow := newScratch(m), newScratch(m)
		given, alpha := make([]float64, m), make([]float64, m)
		for c := range given {
			fast.scores[c] = math.Round(8*random.NormFloat64()) / 8
			if round%2 == 0 {
				given[c] = random.NormFloat64() / 2
			}
		}
		if round%5 == 0 {
			fast.scores[y] += 4 // within the margin
		}
		r.project(alpha, given, y, slow)
		if round%4 == 1 {
			clear(alpha)
			if c := random.IntN(m); c != y {
				alpha[c], alpha[y] = -r.rho[0], r.rho[0]
			}
		}
		copy(slow.scores, fast.scores)
		want := slices.Clone(alpha)
		rise, moved := r.capped(alpha, q, y, fast)
		wantRise, _ := r.step(want, q, y, slow)
		if math.Abs(rise-wantRise) > 1e-11*(1+math.Abs(wantRise)) || rise < -1e-12 {
			t.Fatalf("%d classes, q %g, γ %g: D rises by %g, want %g", m, q, r.gamma, rise, wantRise)
		}
		used := 0
		for c, x := range alpha {
			if math.Abs(x-want[c]) > 1e-10*(1+1/(q+r.gamma)) {
				t.Fatalf("%d classes, q %g, γ %g, class %d of %d: %g, want %g", m, q, r.gamma, c, y, x, want[c])
			}
			if moved && math.Abs(fast.v[c]-slow.v[c]) > 1e-10*(1+1/(q+r.gamma)) {
				t.Fatalf("%d classes, q %g, γ %g, class %d of %d: moved by %g, want %g", m, q, r.gamma, c, y, fast.v[c],
					slow.v[c])
			}
			if x < 0 {
				used++
			}
		}
		if !r.allows(alpha, y, slow) {
			t.Fatalf("%v is not allowed", alpha)
		}
		if !moved {
			still++
		}
		if used > 1 {
			several++
		}
		if alpha[y] > 0.999*r.rho[0] {
			full++
		}
	}
	if still < 100 || several < 1000 || full < 1000 {
		t.Errorf("%d rows stayed, %d had several classes, %d their bound", still, several, full)
	}
}

// TestByGap: rows come by falling gap, as far as its first bits say, and those with less than is asked for not at all.
func TestByGap(t *testing.T) {
	random := rand.New(rand.NewPCG(25, 1))
	f := &fit{memory: memory{gap: make([]float64, 3000)}}
	for i := range f.gap {
		f.all = append(f.all, int32(i))
		if i%5 > 0 {
			f.gap[i] = math.Exp(4 * random.NormFloat64())
		}
	}
	const least = 0.3
	rows := f.byGap(f.all, least)
	seen := make([]bool, len(f.gap))
	for k, i := range rows {
		seen[i] = true
		if k > 0 && f.gap[i] > f.gap[rows[k-1]]*(1+1.0/(1<<gapBits)) {
			t.Fatalf("row %d with %g comes after one with %g", i, f.gap[i], f.gap[rows[k-1]])
		}
	}
	for i, g := range f.gap {
		if seen[i] != (g > least) {
			t.Errorf("row with a gap of %g: taken %t", g, seen[i])
		}
	}
	for _, i := range f.byGap(f.all[:2000], least) {
		if i >= 2000 {
			t.Errorf("row %d is none of those asked for", i)
		}
	}
	if rows := f.byGap(f.all, slices.Max(f.gap)); len(rows) > 0 {
		t.Errorf("%d rows above the largest gap", len(rows))
	}
	clear(f.gap)
	if rows := f.byGap(f.all, 0); len(rows) > 0 {
		t.Errorf("%d rows without a gap", len(rows))
	}
}

// TestEvaluate compares the objective, the dual and the gaps of rows with sums row by row, for every loss, rows with
// all their entries and with few.
func TestEvaluate(t *testing.T) {
	const n, d, m = rowBlock + 83, 9, 4
	for _, share := range []float64{1, 0.9, 0.3} {
		for _, loss := range append(everyLoss, Loss{Kind: WeightedUsunier, Weights: []float64{1, 1, 0.5}}) {
			p := thinned(share, n, d, m)
			p.Loss = loss
			f := newFit(t, SVM{}, p, settings(2))
			random := rand.New(rand.NewPCG(26, 1))
			dual := make([]float64, n*m)
			for i := range dual {
				dual[i] = random.NormFloat64()
			}
			if err := f.load(dual); err != nil {
				t.Fatal(err)
			}
			f.sum()
			f.evaluate()
			objective, value, s := f.ridge(), -f.ridge(), f.scratch[0]
			for i := range n {
				f.scores(s.scores, i, s)
				alpha, y := f.alpha[i*m:(i+1)*m], int(f.class[i])
				phi, conjugate := f.rule.eval(s.v, s.scores, y, s), f.rule.linear(alpha,
					y)+0.5*f.rule.gamma*dot(alpha, alpha)
				objective += p.Weight(i) * phi
				value -= p.Weight(i) * conjugate
				if want := p.Weight(i) * (phi + dot(alpha, s.scores) + conjugate); !near(f.gap[i], want, 1e-9, 1e-9) {
					t.Fatalf("%+v, of %g of the entries: gap of row %d is %g, computed alone %g", loss, share, i,
						f.gap[i], want)
				}
			}
			gaps := slices.Clone(f.gap)
			clear(f.gap)
			f.evaluateRows([]int32{n - 1, 3, 70})
			for i, g := range f.gap {
				if want := gaps[i]; i == 3 || i == 70 || i == n-1 {
					if g != want {
						t.Errorf("%+v: gap of row %d is %g among some, %g among all", loss, i, g, want)
					}
				} else if g != 0 {
					t.Errorf("%+v: row %d was not asked for and has a gap", loss, i)
				}
			}
			if !near(f.objective, objective, 1e-12, 0) || !near(f.value, value, 1e-12, 1e-12) {
				t.Errorf("%+v, of %g of the entries: P %g and D %g, row by row %g and %g", loss, share, f.objective,
					f.value, objective, value)
			}
		}
	}
}
