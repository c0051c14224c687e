package posterior

import (
	"slices"

	"gonum.org/v1/gonum/floats"
)

// summands are what meets in one example: its entries, or the sums Σ x_e row_e over the entries of each group. Rows are
// independent, so the covariance of a sum is Σ x_e² C_e. Entries with a linear weight alone are no part of any.
type summands struct {
	Value []float64
	Mean  [][]float64
	Cov   [][]float64

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
func (p *summands) of(e int) int {
	if !p.listed {
		return e
	}
	return p.place[e]
}

// add sets values and means from the rows of a view; covariances follow when they are asked for.
func (p *summands) add(v *RowView) {
	p.grouped = len(v.Group) > 0
	p.listed, p.entries = p.grouped || len(v.Alone) > 0, len(v.Value)
	switch {
	case !p.listed:
		p.Value, p.Mean, p.Cov = v.Value, v.Mean, v.Cov
		return
	case !p.grouped:
		p.choose(v)
		return
	}
	q := len(v.Sign) + 1
	p.covariance, p.groups, p.place, p.entries = false, p.groups[:0], p.place[:0], 0
	for e, g := range v.Group {
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
		p.means, p.covs = make([]float64, n*q), make([]float64, n*PackedSize(q))
	}
	p.Value, p.Mean = p.ones[:n], p.Mean[:0]
	for l := range n {
		p.Mean = append(p.Mean, p.means[l*q:l*q+q])
		clear(p.Mean[l])
	}
	for e, x := range v.Value {
		if at := p.place[e]; at >= 0 {
			floats.AddScaled(p.Mean[at], x, v.Mean[e])
		}
	}
}

// choose makes a part of every entry but those with a linear weight alone.
func (p *summands) choose(v *RowView) {
	p.place = p.place[:0]
	own := &p.own
	p.Value, p.Mean, p.Cov = own.value[:0], own.mean[:0], own.cov[:0]
	for e, x := range v.Value {
		if v.Alone[e] {
			p.place = append(p.place, -1)
			continue
		}
		p.place = append(p.place, len(p.Value))
		p.Value, p.Mean, p.Cov = append(p.Value, x), append(p.Mean, v.Mean[e]), append(p.Cov, v.Cov[e])
	}
	own.value, own.mean, own.cov, p.entries = p.Value, p.Mean, p.Cov, len(p.Value)
}

// addCovariances fills the covariances of the parts that add has set.
func (p *summands) addCovariances(v *RowView) {
	if !p.grouped || p.covariance {
		return
	}
	p.covariance, p.Cov = true, p.Cov[:0]
	size := PackedSize(len(v.Sign) + 1)
	for l := range p.groups {
		p.Cov = append(p.Cov, p.covs[l*size:l*size+size])
		clear(p.Cov[l])
	}
	for e, x := range v.Value {
		if at := p.place[e]; at >= 0 {
			floats.AddScaled(p.Cov[at], x*x, v.Cov[e])
		}
	}
}
