package experiment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"

	"github.com/refitd/refitd/solver"
)

// memoryShape is a problem whose memory is measured: rows with as many entries each, McRank outputs of five levels.
type memoryShape struct{ rows, features, entries, basis int }

// memoryOutputs is the number of outputs of five levels.
const memoryOutputs = 4

// params is the number of parameters of the model: basis vectors, output weights, linear weights and biases.
func (s memoryShape) params() int {
	return s.features*(s.basis+memoryOutputs) + (s.basis+1)*memoryOutputs
}

// Memory measures what a solve keeps in memory: the bytes that live at its last step, problem included, for shapes that
// differ in one thing each. Features and rows are made up, names (two entries a row) and dense numbers.
func Memory(ctx context.Context, o Options) (*Report, error) {
	main := Table{Title: "Memory of a solve, bytes that live at its last step, ℓ1/ℓ∞, 4 outputs",
		Header: []string{
			"rows",
			"entries in a row",
			"problem, per row",
			"solver, per row without basis vectors",
			"per row and basis vector",
			"per parameter, the search for vectors included",
		}}
	names, dense := memoryShape{
		rows:     100_000,
		features: 10_000,
		entries:  2,
		basis:    10,
	}, memoryShape{
		rows:     20_000,
		features: 36,
		entries:  36,
		basis:    10,
	}
	if o.Quick {
		names, dense = memoryShape{
			rows:     4000,
			features: 500,
			entries:  2,
			basis:    3,
		}, memoryShape{
			rows:     2000,
			features: 12,
			entries:  12,
			basis:    3,
		}
	}
	o.Progress.Stage("solving", "shapes", 8)
	for i, base := range []memoryShape{names, dense} {
		longer, wider, richer := base, base, base
		longer.rows *= 2
		wider.basis *= 2
		richer.features *= 2
		live, problem, err := o.live(ctx, base)
		if err != nil {
			return nil, err
		}
		var more [3]float64
		for j, s := range []memoryShape{longer, wider, richer} {
			if more[j], _, err = o.live(ctx, s); err != nil {
				return nil, err
			}
		}
		n := float64(base.rows)
		perParameter := (more[2] - live) / float64(richer.params()-base.params())
		// a vector itself is d numbers
		perVector := ((more[1] - live) - 8*float64(wider.params()-base.params())) / (n * float64(base.basis))
		perRow := (more[0]-live)/n - problem/n - perVector*float64(base.basis)
		row := []string{
			[]string{"names", "numbers"}[i],
			fmt.Sprint(base.entries),
			fmt.Sprintf("%.0f", problem/n),
			fmt.Sprintf("%.0f", perRow),
			fmt.Sprintf("%.1f", perVector),
			fmt.Sprintf("%.0f", perParameter),
		}
		if base.entries == base.features { // more features are longer rows
			row[len(row)-1] = "-"
		}
		main.Rows = append(main.Rows, row)
	}
	return &Report{Name: "memory", Tables: []Table{main}}, nil
}

// live returns the bytes that live at the last step of a solve of the shape, and those of the problem alone.
func (o *Options) live(ctx context.Context, s memoryShape) (whole, problem float64, err error) {
	empty := heap()
	p := s.problem()
	problem = heap() - empty
	settings := solver.DefaultSettings()
	settings.Lambda, settings.MaxBasis, settings.MaxSteps, settings.Workers, settings.Rough = 1e-3, s.basis, s.basis, 1,
		true
	settings.OnStep = func(step solver.Step, _ *solver.Model) bool {
		if step.K == s.basis {
			whole = heap() - empty
		}
		return false
	}
	if _, err := solver.Solve(ctx, p, nil, settings); err != nil {
		return 0, 0, fmt.Errorf("paper: %w", err)
	}
	if whole == 0 && ctx.Err() == nil {
		return 0, 0, fmt.Errorf("paper: a solve of %d basis vectors ended before it had them", s.basis)
	}
	runtime.KeepAlive(p)
	o.Progress.Add(1)
	return whole, problem, ctx.Err()
}

// heap returns the bytes that are reachable.
func heap() float64 {
	runtime.GC()
	runtime.GC() // what the first one found finalizers for
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// problem makes up rows and levels.
func (s memoryShape) problem() *solver.Problem {
	rng := rand.New(rand.NewPCG(1, 2))
	x := solver.NewRows(s.features, s.rows, s.rows*s.entries)
	p := &solver.Problem{
		X:         x,
		Outputs:   memoryOutputs,
		Loss:      solver.BinaryLogistic{},
		Targets:   make([]float64, 0, s.rows*memoryOutputs),
		NumFields: 1,
	}
	index, value := make([]int32, s.entries), make([]float64, s.entries)
	for range s.rows {
		width := s.features / s.entries
		for e := range index {
			index[e], value[e] = int32(e*width+rng.IntN(width)), 1
			if width == 1 {
				value[e] = rng.NormFloat64()
			}
		}
		x.Append(index, value)
		level := rng.IntN(memoryOutputs + 1)
		for c := range memoryOutputs {
			p.Targets = append(p.Targets, map[bool]float64{true: 1, false: -1}[level > c])
		}
	}
	return p
}
