package sweep

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/online"
	"github.com/refitd/refitd/solver/posterior/posteriortest"
)

// heap returns the bytes that are reachable.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one found finalizers for
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// near fails unless what was measured is the footprint, within 10 percent above it and 40 below.
func near(t *testing.T, what string, measured, footprint int64) {
	t.Helper()
	if float64(measured) > 1.1*float64(footprint) || float64(measured) < 0.6*float64(footprint) {
		t.Errorf("%s takes %d bytes, its footprint is %d", what, measured, footprint)
	}
}

func TestFootprints(t *testing.T) {
	const d, k, n, fields = 4000, 6, 20_000, 3
	for _, c := range []struct {
		name       string
		likelihood posterior.Likelihood
		outputs    int
		separate   bool
	}{{"shared", posterior.Gaussian, 1, false}, {"levels", posterior.Logistic, 4, false}, {"classes",
		posterior.Multinomial, 5, true}, {"labels", posterior.Logistic, 3, true}} {
		t.Run(c.name, func(t *testing.T) {
			field := make([]int32, d)
			for j := range field {
				field[j] = int32(j * fields / d)
			}
			before := heap()
			var s *posterior.State
			if c.separate {
				s = posterior.NewSeparate(c.likelihood, c.outputs, field, fields, posterior.PriorFor(c.likelihood, 1))
			} else {
				s = posterior.New(c.likelihood, c.outputs, k, field, fields, posterior.PriorFor(c.likelihood, 1))
			}
			near(t, "a state", heap()-before, posterior.Footprint(d, s.NumBasis, c.outputs, c.separate))

			p := &solver.Problem{
				X:         solver.NewRows(d, n, n*fields),
				Outputs:   c.outputs,
				Targets:   make([]float64, n*c.outputs),
				NumFields: fields,
				Field:     field,
				Loss:      solver.Squared{},
			}
			for i := range n {
				p.X.Append([]int32{int32(i % (d / fields)), int32(d/fields + 2 + i%97), int32(d - 1 - i%7)},
					[]float64{1, 1, 1})
				for o := range c.outputs {
					p.Targets[i*c.outputs+o] = -1
				}
				p.Targets[i*c.outputs+i%c.outputs] = 1
				for o := range c.outputs {
					if c.likelihood == posterior.Multinomial {
						p.Targets[i*c.outputs+o] = max(0, p.Targets[i*c.outputs+o])
					}
				}
			}
			before = heap()
			r, err := NewRefit(s, p, 10, 1)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "a refit", heap()-before, Footprint(n, fields, s.NumBasis, c.outputs, c.separate))
			runtime.KeepAlive(r)

			before = heap()
			rates := make([][]float64, fields)
			for i := range rates {
				rates[i] = online.DefaultRates
			}
			f := online.NewFoldIn(s, rates)
			for j := range int32(d) {
				f.Place(j, online.Feature{Field: field[j], Row: j, Base: j})
			}
			near(t, "a fold-in", heap()-before,
				online.Footprint(d, len(online.DefaultRates), s.NumBasis, c.outputs, c.separate))
			runtime.KeepAlive(f)
		})
	}
}

// TestUnitsFootprint measures a refit over units of two groups, and of three.
func TestUnitsFootprint(t *testing.T) {
	for _, three := range [][]int32{nil, {0, 0, 2, 3, 3}} {
		r := rand.New(rand.NewPCG(1, 2))
		p, group := posteriortest.GroupedRatings(r, 20_000, 40, false)
		s := posterior.New(posterior.Gaussian, 1, 8, p.Field, p.NumFields, posterior.PriorFor(posterior.Gaussian, 1))
		if s.Group = group; three != nil {
			s.Group = three
		}
		before := heap()
		f, err := NewRefit(s, p, 10, 1)
		if err != nil {
			t.Fatal(err)
		}
		const entries = 6
		took, most := heap()-before, Footprint(20_000, entries, 8, 1, false)+UnitsFootprint(20_000, entries, 8)
		if f.pairs == nil && f.units == nil || took > most {
			t.Errorf("a refit over units takes %d bytes, its footprint is %d", took, most)
		}
		runtime.KeepAlive(f)
	}
}

// TestRowTotalsFootprint measures a refit that keeps totals of its rows.
func TestRowTotalsFootprint(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p := numbersAndNames(r, 20_000)
	s := posterior.New(posterior.Logistic, 1, 8, p.Field, p.NumFields, posterior.PriorFor(posterior.Logistic, 1))
	before := heap()
	f, err := NewRefit(s, p, 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "a refit with totals", heap()-before, Footprint(20_000, 5, 8, 1, false))
	runtime.KeepAlive(f)
}
