package trees

import (
	"slices"
	"sort"
)

// Judge stores the gradient of the likelihood in every output in dst, and returns its curvature, which is positive: one
// number for all outputs.
type Judge func(dst, outputs, targets []float64) (curvature float64)

// Options say how an ensemble is fitted.
type Options struct {
	Rows  int     // newest ones that it is fitted to, at most
	Trees int     // at most
	Depth int     // questions of a tree, at most
	Rate  float64 // by which the step of a tree is shrunk, in (0, 1]
}

// What all fits have in common. All are chosen by hand; rules 1 and 2 were looked at.
const (
	numBins   = 32  // of a numeric field
	ridge     = 3.0 // curvature that a leaf begins with
	leastGain = 2.0 // of a question, in nats times two: the gain that chance alone has is about 1
	mostLeaf  = 4.0 // of an output of a leaf
	baseSteps = 6   // of Newton, for the base
	maxDepth  = 6
)

// Fitter fits ensembles. It has the memory for it, and belongs to one goroutine at a time.
type Fitter struct {
	rows    []int       // of the window, oldest first
	edges   [][]float64 // by numeric field
	bins    [][]uint8   // by input: that of each row, or the code of its name
	sizes   []int       // by input: bins or codes
	outputs []float64   // rows × m
	slopes  []float64   // rows × (m+1): gradients of the outputs, then the curvature
	leaf    []uint8     // by row, of the tree in hand
	target  []float64
	values  []float32

	search
}

// Fit fits an ensemble to the newest rows of a window: each tree takes a step of Newton on what those before it leave
// (Friedman 2001). Questions are chosen on every other row, another half for each tree; leaves have all.
// O(rows · inputs · depth · trees · m).
func (f *Fitter) Fit(w *Window, o Options, judge Judge) *Ensemble {
	m, n := w.outputs, min(w.Len(), o.Rows)
	f.rows = f.rows[:0]
	for age := n - 1; age >= 0; age-- {
		f.rows = append(f.rows, (w.n-1-age)%w.size)
	}
	f.bin(w, n)
	f.target, f.leaf = resize(f.target, m), resize(f.leaf, n)
	f.outputs, f.slopes = resize(f.outputs, n*m), resize(f.slopes, n*(m+1))
	clear(f.outputs)
	e := &Ensemble{Base: make([]float64, m)}
	for range baseSteps {
		f.judge(w, judge)
		clear(f.leaf)
		step := f.steps(1, m, 1)
		for i := range f.outputs {
			f.outputs[i] += step[i%m]
		}
		for c, v := range step {
			e.Base[c] += v
		}
	}
	for i := range o.Trees {
		f.judge(w, judge)
		t := f.tree(w, o, i%2)
		if len(t.Splits) == 0 {
			break
		}
		e.Trees = append(e.Trees, t)
		for i, leaf := range f.leaf {
			for c, v := range t.Leaves[int(leaf)*m : int(leaf+1)*m] {
				f.outputs[i*m+c] += v
			}
		}
	}
	return e
}

// resize returns memory for n values, which are whatever they were.
func resize[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// bin cuts numbers into bins, and takes over the codes of names.
func (f *Fitter) bin(w *Window, n int) {
	if f.bins == nil {
		f.edges, f.bins, f.sizes = make([][]float64, w.fields), make([][]uint8, w.Inputs()), make([]int, w.Inputs())
	}
	for j := range f.bins {
		bins := resize(f.bins[j], n)
		f.bins[j] = bins
		if field := j - w.fields; field >= 0 {
			most := uint8(0)
			for i, at := range f.rows {
				bins[i] = w.codes[field][at]
				most = max(most, bins[i])
			}
			f.sizes[j] = int(most) + 1
			continue
		}
		f.edges[j], f.values = w.edges(f.edges[j], j, n, numBins, f.values)
		edges := f.edges[j]
		for i, at := range f.rows {
			v := float64(w.numbers[at*w.fields+j])
			bins[i] = uint8(sort.Search(len(edges), func(b int) bool { return !(v >= edges[b]) }))
		}
		f.sizes[j] = len(edges) + 1
	}
}

// judge sets the slopes of all rows.
func (f *Fitter) judge(w *Window, judge Judge) {
	m := w.outputs
	for i, at := range f.rows {
		for c := range f.target {
			f.target[c] = float64(w.targets[at*m+c])
		}
		slope, weight := f.slopes[i*(m+1):(i+1)*(m+1)], float64(w.weights[at])
		slope[m] = weight * judge(slope[:m], f.outputs[i*m:i*m+m], f.target)
		for c := range f.target {
			slope[c] *= weight
		}
	}
}

// tree returns the tree that takes the slopes best. Questions are chosen on every other row, from first on.
func (f *Fitter) tree(w *Window, o Options, first int) (t Tree) {
	clear(f.leaf)
	for len(t.Splits) < min(o.Depth, maxDepth) {
		input, bin := f.best(f, w.outputs, 1<<len(t.Splits), first)
		if input < 0 {
			break
		}
		s, yes := Split{Field: input, code: uint8(bin)}, uint8(1)<<len(t.Splits)
		named := input >= w.fields
		if named {
			s.Field = w.fields - 1 - input
		} else {
			s.Edge = f.edges[input][bin-1]
		}
		for i, b := range f.bins[input] {
			if int(b) == bin || !named && int(b) > bin {
				f.leaf[i] |= yes
			}
		}
		t.Splits = append(t.Splits, s)
	}
	t.Leaves = f.steps(1<<len(t.Splits), w.outputs, o.Rate)
	return t
}

// steps returns the step of Newton in each leaf, shrunk by a rate: leaves × m.
func (f *Fitter) steps(leaves, m int, rate float64) []float64 {
	sums, steps := f.totals(f, m, leaves, 0, 1), make([]float64, leaves*m)
	for l := range leaves {
		sum := sums[l*(m+1) : (l+1)*(m+1)]
		for c := range m {
			steps[l*m+c] = min(max(rate*sum[c]/(sum[m]+ridge), -mostLeaf), mostLeaf)
		}
	}
	return steps
}

// Footprint returns the bytes that a window of so many rows, a fitter and the ensembles take at most, with names of at
// most maxName bytes.
func Footprint(rows, numeric, names, outputs, maxName int, fits []Options) int64 {
	const number, entry = 8, 64 // bytes: of a float64; of a name in a map and a list
	inputs, m := numeric+names, outputs
	window := rows*(4*numeric+4*m+4+names) + names*(maxCodes+1)*(entry+maxName)
	fitter := rows*(number*(2*m+2)+1+inputs) + number*(1<<(maxDepth-1))*(maxCodes+1)*(m+1)
	ensembles := 0
	for _, o := range fits {
		const split = 48
		ensembles += o.Trees * (number*m<<o.Depth + split*o.Depth)
	}
	return int64(window + fitter + ensembles)
}
