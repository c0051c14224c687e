package posterior

import (
	"slices"

	"gonum.org/v1/gonum/floats"
)

// parts are what meets in one example: its entries, or the sums Σ x_e row_e over the entries of each group. Rows are independent, so the
// covariance of a sum is Σ x_e² C_e. Entries with a linear weight alone are no part of any.
type parts struct {
	value []float64
	mean  [][]float64
	cov   [][]float64

	grouped    bool
	listed     bool    // place is filled: not every entry is a part
	entries    int     // that are in a part
	groups     []int32 // of the parts
	place      []int   // per entry, its part, or -1
	covariance bool    // cov is filled
	means      []float64
	covs       []float64
	ones       []float64
	own        struct { // the memory of choose
		value     []float64
		mean, cov [][]float64
	}
}

// of returns the part of an entry.
func (p *parts) of(e int) int {
	if !p.listed {
		return e
	}
	return p.place[e]
}

// add sets values and means from the rows of a view; covariances follow when they are asked for.
func (p *parts) add(v *rowView) {
	p.grouped = len(v.group) > 0
	p.listed, p.entries = p.grouped || len(v.alone) > 0, len(v.value)
	switch {
	case !p.listed:
		p.value, p.mean, p.cov = v.value, v.mean, v.cov
		return
	case !p.grouped:
		p.choose(v)
		return
	}
	q := len(v.sign) + 1
	p.covariance, p.groups, p.place, p.entries = false, p.groups[:0], p.place[:0], 0
	for e, g := range v.group {
		if v.isAlone(e) {
			p.place = append(p.place, -1)
			continue
		}
		p.entries++
		at := slices.Index(p.groups, g)
		if at < 0 {
			at, p.groups = len(p.groups), append(p.groups, g)
		}
		p.place = append(p.place, at)
	}
	n := len(p.groups)
	for len(p.ones) < n {
		p.ones = append(p.ones, 1)
	}
	if len(p.means) < n*q {
		p.means, p.covs = make([]float64, n*q), make([]float64, n*packedSize(q))
	}
	p.value, p.mean = p.ones[:n], p.mean[:0]
	for l := range n {
		p.mean = append(p.mean, p.means[l*q:l*q+q])
		clear(p.mean[l])
	}
	for e, x := range v.value {
		if at := p.place[e]; at >= 0 {
			floats.AddScaled(p.mean[at], x, v.mean[e])
		}
	}
}

// choose makes a part of every entry but those with a linear weight alone.
func (p *parts) choose(v *rowView) {
	p.place = p.place[:0]
	own := &p.own
	p.value, p.mean, p.cov = own.value[:0], own.mean[:0], own.cov[:0]
	for e, x := range v.value {
		if v.alone[e] {
			p.place = append(p.place, -1)
			continue
		}
		p.place = append(p.place, len(p.value))
		p.value, p.mean, p.cov = append(p.value, x), append(p.mean, v.mean[e]), append(p.cov, v.cov[e])
	}
	own.value, own.mean, own.cov, p.entries = p.value, p.mean, p.cov, len(p.value)
}

// addCovariances fills the covariances of the parts that add has set.
func (p *parts) addCovariances(v *rowView) {
	if !p.grouped || p.covariance {
		return
	}
	p.covariance, p.cov = true, p.cov[:0]
	size := packedSize(len(v.sign) + 1)
	for l := range p.groups {
		p.cov = append(p.cov, p.covs[l*size:l*size+size])
		clear(p.cov[l])
	}
	for e, x := range v.value {
		if at := p.place[e]; at >= 0 {
			floats.AddScaled(p.cov[at], x*x, v.cov[e])
		}
	}
}
