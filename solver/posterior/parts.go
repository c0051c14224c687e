package posterior

import (
	"slices"

	"gonum.org/v1/gonum/floats"
)

// parts are what meets in one example: its entries, or the sums Σ x_e row_e over the entries of each group. Rows are independent, so the
// covariance of a sum is Σ x_e² C_e.
type parts struct {
	value []float64
	mean  [][]float64
	cov   [][]float64

	grouped    bool
	groups     []int32 // of the parts
	place      []int   // per entry, its part
	covariance bool    // cov is filled
	means      []float64
	covs       []float64
	ones       []float64
}

// of returns the part of an entry.
func (p *parts) of(e int) int {
	if !p.grouped {
		return e
	}
	return p.place[e]
}

// add sets values and means from the rows of a view; covariances follow when they are asked for.
func (p *parts) add(v *rowView) {
	p.grouped = len(v.group) > 0
	if !p.grouped {
		p.value, p.mean, p.cov = v.value, v.mean, v.cov
		return
	}
	q := len(v.sign) + 1
	p.covariance, p.groups, p.place = false, p.groups[:0], p.place[:0]
	for _, g := range v.group {
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
		floats.AddScaled(p.mean[p.place[e]], x, v.mean[e])
	}
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
		floats.AddScaled(p.cov[p.place[e]], x*x, v.cov[e])
	}
}
