package scorer

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/refitd/refitd/snapshot/format"
)

// screen has the rows of the names of a large field once more, by columns and in 7 bits a number, so that TopK can
// rule nearly all of them out by the few columns that matter most to its event, eight names at a time: what rounding
// hides and other columns may add is bounded by Cauchy and Schwarz's inequality (LEMP, Teflioudi et al. 2015, chooses
// coordinates by event, too). Columns are the coordinates of the basis and, per output, what the name adds without
// other names: its linear weight and, with the homogeneous kernel, its squares. A last column bounds the length of
// each row, in deviations of its numbers.
//
// It takes a byte for every 8 of the rows. It is of the rows of the version: those that deltas have changed are looked
// at as they are.
type screen struct {
	// columns are k + M: M is m where each output has a separate number, else 0. Nil if numbers over- or underflow.
	columns    []screenColumn
	lengthStep float64
	blocks     []uint64 // of each blockNames names: k + M + 1 columns of a byte each
	outliers   []uint64 // of each blockNames names, bit by bit: those with a number that the column's bytes do not reach
}

// screenColumn says what the bytes of a column are: low + step·byte, up to half a step.
type screenColumn struct {
	center, deviation, low, step float64
	rounding                     float64 // what its numbers may be off by
}

const (
	screenMost   = 127 // of a byte
	screenSample = 512 // names that say where numbers are
	screenApart  = 3   // of the sample's numbers, from the farthest: twice as far from the center bytes reach
	screenLength = 8   // deviations that numbers of a row may be away from the center on average
)

// lazyScreen is the screen of a field, made when it is ranked the screenAfter-th time: that takes as long as some
// thirty rankings without.
type lazyScreen struct {
	asked atomic.Int32
	made  atomic.Pointer[screen]
}

const screenAfter = 8

// Numbers of rows between which squares are far from over- and underflow. All zeros are fine.
const (
	leastNumber = 1e-140
	mostNumber  = 1e140
)

func newScreens(fields int) []*lazyScreen {
	s := make([]*lazyScreen, fields)
	for i := range s {
		s[i] = new(lazyScreen)
	}
	return s
}

// screenOf returns the screen of a field, or nil: the field is small, or was ranked a few times only, or another
// goroutine is making the screen, or what names add is not linear in their numbers.
func (m *Model) screenOf(field int) *screen {
	if len(m.contents.Vocabulary[field]) < minNames || len(m.screens) == 0 || isCube(&m.contents) {
		return nil
	}
	lazy := m.screens[field]
	s := lazy.made.Load()
	if s == nil && lazy.asked.Load() < screenAfter && lazy.asked.Add(1) == screenAfter {
		s = m.newScreen(field)
		lazy.made.Store(s)
	}
	if s == nil || s.columns == nil {
		return nil
	}
	return s
}

// newScreen makes the screen of a field of the version.
func (m *Model) newScreen(field int) *screen {
	c := &m.contents
	width := c.NumBasis
	if c.Linear != nil || c.Kernel == format.Homogeneous {
		width += c.NumOutputs
	}
	names, first := len(c.Vocabulary[field]), int(m.first[field])
	columns, row, lengths := make([]screenColumn, width), make([]float64, width), make([]float64, names)
	if !m.measure(columns, row, first, names) {
		return new(screen)
	}
	scale, perStep := make([]float64, width), make([]float64, width)
	for c := range columns {
		if x := &columns[c]; x.step > 0 {
			scale[c], perStep[c] = 1/x.deviation, 1/x.step
		}
	}
	longest, most := 0.0, screenLength*math.Sqrt(float64(width))
	for i := range lengths {
		m.screenRow(row, first+i)
		length := 0.0
		for c, v := range row {
			v = (v - columns[c].center) * scale[c]
			length += v * v
		}
		lengths[i] = math.Sqrt(length) * (1 + 1e-9)
		if lengths[i] < most {
			longest = max(longest, lengths[i])
		}
	}
	blocks := (names + blockNames - 1) / blockNames
	s := &screen{
		columns:    columns,
		lengthStep: longest / screenMost,
		blocks:     make([]uint64, blocks*(width+1)*8),
		outliers:   make([]uint64, blocks),
	}
	for i, length := range lengths {
		m.screenRow(row, first+i)
		at, shift := i/blockNames*(width+1)*8+i%blockNames/8, i%8*8
		isOutlier := length > longest
		for c, v := range row {
			x := &columns[c]
			b := (v-x.low)*perStep[c] + 0.5
			if b < 0 || b >= screenMost+1 || x.step == 0 && v != x.center {
				b, isOutlier = 0, true
			}
			s.blocks[at] |= uint64(int(b)) << shift
			at += 8
		}
		if longest > 0 {
			s.blocks[at] |= uint64(min(math.Ceil(length/s.lengthStep), screenMost)) << shift
		}
		if isOutlier {
			s.outliers[i/blockNames] |= 1 << (i % blockNames)
		}
	}
	return s
}

// measure says where the numbers of the columns are. It reports false if they over- or underflow.
func (m *Model) measure(columns []screenColumn, row []float64, first, names int) bool {
	type span struct{ center, reach, low, high, squares, names float64 }
	spans, rounding := make([]span, len(columns)), make([]float64, len(row)-m.contents.NumBasis)
	for c, reach := range m.sampled(columns, row, first, names) {
		spans[c] = span{center: columns[c].center, reach: reach}
	}
	for j := first; j < first+names; j++ {
		m.screenRow(row, j)
		m.roundingOf(rounding, row, j)
		for c := range spans {
			x, v := &spans[c], row[c]
			if size := math.Abs(v); !(size < mostNumber) || size < leastNumber && v != 0 {
				return false
			}
			if v -= x.center; v > x.reach || -v > x.reach {
				continue
			}
			x.squares += v * v
			x.names++
			if v < x.low {
				x.low = v
			} else if v > x.high {
				x.high = v
			}
		}
	}
	for c := range columns {
		x, s := &columns[c], &spans[c]
		x.deviation = math.Sqrt(s.squares / s.names)
		x.low, x.step = s.center+s.low, (s.high-s.low)/screenMost
		if own := c - m.contents.NumBasis; own >= 0 {
			x.rounding = rounding[own]
		}
	}
	return true
}

// sampled makes the medians of some names the centers of columns, and returns how far from there bytes are to reach.
func (m *Model) sampled(columns []screenColumn, row []float64, first, names int) []float64 {
	reach, all := make([]float64, len(columns)), make([]float64, len(columns)*screenSample)
	for i := range screenSample {
		m.screenRow(row, first+i*names/screenSample)
		for c, v := range row {
			all[c*screenSample+i] = v
		}
	}
	for c := range columns {
		sample := all[c*screenSample : (c+1)*screenSample]
		slices.Sort(sample)
		center := sample[screenSample/2]
		for i, v := range sample {
			sample[i] = math.Abs(v - center)
		}
		slices.Sort(sample)
		columns[c].center, reach[c] = center, 2*sample[screenSample-screenApart]
	}
	return reach
}

// screenRow stores the numbers of a column of the version: its coordinates, and what it adds to each output without
// other names.
func (m *Model) screenRow(row []float64, j int) {
	c := &m.contents
	k, numOut := c.NumBasis, c.NumOutputs
	basis, own := c.Basis[j*k:(j+1)*k], row[k:]
	copy(row, basis)
	if c.Linear != nil {
		copy(own, c.Linear[j*numOut:(j+1)*numOut])
	} else {
		clear(own)
	}
	if c.Kernel == format.Homogeneous {
		for r, h := range basis {
			for o, w := range c.Weights[r*numOut : (r+1)*numOut] {
				own[o] += w * h * h
			}
		}
	}
}

// roundingOf raises, of each output, what the rounding of its sum of squares in a row may be.
func (m *Model) roundingOf(rounding, row []float64, j int) {
	c := &m.contents
	if c.Kernel != format.Homogeneous {
		return
	}
	k, numOut := c.NumBasis, c.NumOutputs
	const unit = 0x1p-52
	for o := range rounding {
		size := math.Abs(row[k+o])
		for r, h := range row[:k] {
			size += math.Abs(c.Weights[r*numOut+o] * h * h)
		}
		rounding[o] = max(rounding[o], float64(k+4)*unit*size)
	}
}
