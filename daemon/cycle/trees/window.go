package trees

import (
	"math"
	"slices"
	"strings"
)

// Window keeps the newest events in a ring of rows: their numbers, the codes of their names, and their targets.
type Window struct {
	size, fields, outputs int // rows at most, numeric fields, outputs
	n                     int // events so far
	numbers               []float32
	targets               []float32
	weights               []float32
	codes                 [][]uint8    // by field of names
	names                 []dictionary // by field of names
}

// dictionary numbers names of a field from 1 on. All others, and no name, are 0.
type dictionary struct {
	codeOf map[string]uint8
	nameOf [maxCodes + 1]string
	free   []uint8
}

// maxCodes is how many names of a field have a code. Derived from the size of a code.
const maxCodes = 255

// NewWindow returns a window of at most size rows with so many numeric fields, fields of names and outputs.
func NewWindow(size, numeric, names, outputs int) *Window {
	w := &Window{size: size, fields: numeric, outputs: outputs, numbers: make([]float32, size*numeric),
		targets: make([]float32, size*outputs), weights: make([]float32, size), codes: make([][]uint8, names),
		names: make([]dictionary, names)}
	for f := range w.codes {
		w.codes[f] = make([]uint8, size)
		d := &w.names[f]
		d.codeOf, d.free = make(map[string]uint8), make([]uint8, maxCodes)
		for i := range d.free {
			d.free[i] = uint8(maxCodes - i)
		}
	}
	return w
}

// Len returns how many rows there are.
func (w *Window) Len() int { return min(w.n, w.size) }

// Inputs returns how many numeric fields and fields of names there are.
func (w *Window) Inputs() int { return w.fields + len(w.codes) }

// Codes stores the codes of the names of an event in dst, one for each field.
func (w *Window) Codes(dst []uint8, names []string) {
	for f, name := range names {
		dst[f] = w.names[f].codeOf[name]
	}
}

// Add adds an event in the place of the oldest one. Names are copied.
func (w *Window) Add(numeric []float64, names []string, targets []float64, weight float64) {
	at := w.n % w.size
	for f, v := range numeric {
		w.numbers[at*w.fields+f] = float32(v)
	}
	w.setTargets(at, targets)
	w.weights[at] = float32(weight)
	for f, name := range names {
		w.codes[f][at] = w.names[f].add(name)
	}
	w.n++
}

// Correct sets the targets of the event that came so many events before the newest one, if it is still in the window
// and has these names.
func (w *Window) Correct(since int, names []string, targets []float64) {
	if since < 0 || since >= w.Len() {
		return
	}
	at := (w.n - 1 - since) % w.size
	for f, name := range names {
		if w.codes[f][at] != w.names[f].codeOf[name] {
			return
		}
	}
	w.setTargets(at, targets)
}

func (w *Window) setTargets(at int, targets []float64) {
	for c, t := range targets {
		w.targets[at*w.outputs+c] = float32(t)
	}
}

// add returns the code of a name. A new one gets a code if one is free.
func (d *dictionary) add(name string) uint8 {
	code, ok := d.codeOf[name]
	if last := len(d.free) - 1; !ok && last >= 0 && name != "" {
		code, d.free = d.free[last], d.free[:last]
		name = strings.Clone(name)
		d.codeOf[name], d.nameOf[code] = code, name
	}
	return code
}

// Name returns the name that a split asks for, of an ensemble in use; empty for one on a number.
func (w *Window) Name(s *Split) string {
	if s.Field >= 0 {
		return ""
	}
	return w.names[-1-s.Field].nameOf[s.code]
}

// Forget takes back the codes of names with fewer than least rows that no ensemble in use asks for, in fields that have
// few codes left. Names that come later get them.
func (w *Window) Forget(least int, inUse ...*Ensemble) {
	for f := range w.names {
		d, rows := &w.names[f], w.codes[f][:w.Len()]
		if len(d.free) > maxCodes/2 {
			continue
		}
		var counts [maxCodes + 1]int
		for _, e := range inUse {
			e.eachSplit(func(s *Split) {
				if s.Field == -1-f {
					counts[s.code] += least
				}
			})
		}
		for _, code := range rows {
			counts[code]++
		}
		for code := maxCodes; code > 0; code-- {
			if name := d.nameOf[code]; name != "" && counts[code] < least {
				delete(d.codeOf, name)
				d.nameOf[code], d.free = "", append(d.free, uint8(code))
			}
		}
		for i, code := range rows {
			if d.nameOf[code] == "" {
				rows[i] = 0
			}
		}
	}
}

// edgeRows is how many rows edges are taken from. Chosen by hand.
const edgeRows = 1024

// edges appends to dst where the values of a numeric field in the newest n rows are cut, so that each of so many bins
// has about as many: ascending, each between two values, so that numbers before they were rounded are parted alike.
// scratch is memory for values, and is returned.
func (w *Window) edges(dst []float64, field, n, bins int, scratch []float32) (edges []float64, values []float32) {
	values = scratch[:0]
	for age := 0; age < n; age += max(1, n/edgeRows) {
		v := w.numbers[(w.n-1-age)%w.size*w.fields+field]
		if x := float64(v); !math.IsNaN(x) && !math.IsInf(x, 0) {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	edges = dst[:0]
	for b := 1; b < bins && len(values) > 0; b++ {
		at, _ := slices.BinarySearch(values, values[b*len(values)/bins])
		if at == 0 {
			continue // no value is below
		}
		low, high := values[at-1], values[at]
		edge := float64(low + (high-low)/2)
		switch {
		case math.IsInf(edge, 0): // they are too far apart
			edge = float64(high)
		case !(edge > float64(low) && edge < float64(high)): // they are next to each other: where numbers are rounded
			edge = (float64(low) + float64(high)) / 2
		}
		if last := len(edges) - 1; last < 0 || edge > edges[last] {
			edges = append(edges, edge)
		}
	}
	return edges, values
}
