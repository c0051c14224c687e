package posterior

import (
	"math"
	"slices"
)

// vector is a basis vector of the published model: coordinate r of the mean rows, of all groups or of some, with the
// square of its length.
type vector struct {
	r      int
	weight float64
	square float64
	only   int32 // the one group it has, or everyGroup
	minus  int32 // the group whose coordinates are negative, or everyGroup for none
}

// everyGroup is a mark in lists of groups; that defines it.
const everyGroup = -1

// scale makes the vector one of length 1.
func (v *vector) scale() float64 { return 1 / math.Sqrt(v.square) }

func (v *vector) factor(group int32) float64 {
	switch {
	case v.only != everyGroup && v.only != group:
		return 0
	case v.minus != everyGroup && v.minus == group:
		return -1
	}
	return 1
}

func (s *State) group(j int) int32 {
	if s.Group == nil {
		return everyGroup
	}
	return s.Group[s.Field[j]]
}

// vectors returns the basis vectors that do not vanish.
func (s *State) vectors() []vector {
	q, linear := s.RowSize(), s.NumLinear()
	all := make([]vector, s.NumBasis)
	for r := range all {
		all[r] = vector{r: r, weight: 1, only: everyGroup, minus: everyGroup}
	}
	for j := range s.Field {
		for r, h := range s.Mean[j*q+linear : j*q+q] {
			all[r].square += h * h
		}
	}
	return slices.DeleteFunc(all, func(v vector) bool { return !(v.square > 0) })
}

// groupedVectors writes the interactions of groups as squares, which the homogeneous kernel has. For each coordinate,
// with S the sum of all rows and S_g that of a group, Σ_{g<h} S_g S_h = ½ (S² − Σ_g S_g²), and for two groups ¼
// ((S_1 + S_2)² − (S_1 − S_2)²), a vector less.
func (s *State) groupedVectors(all []vector) []vector {
	groups := slices.Clone(s.Group)
	slices.Sort(groups)
	groups = slices.Compact(groups)
	if len(groups) < 2 {
		return nil
	}
	var out []vector
	for _, v := range all {
		if len(groups) == 2 {
			sum, difference := v, v
			sum.weight, difference.weight, difference.minus = 0.25, -0.25, groups[1]
			out = append(out, sum, difference)
			continue
		}
		v.weight = 0.5
		out = append(out, v)
		for _, g := range groups {
			part := v
			part.weight, part.only, part.square = -0.5, g, 0
			s.eachOf(g, v.r, func(h float64) { part.square += h * h })
			if part.square > 0 {
				out = append(out, part)
			}
		}
	}
	return out
}

// eachOf calls visit for coordinate r of every feature of a group.
func (s *State) eachOf(group int32, r int, visit func(h float64)) {
	q, linear := s.RowSize(), s.NumLinear()
	for j := range s.Field {
		if s.group(j) == group {
			visit(s.Mean[j*q+linear+r])
		}
	}
}

// Together reports whether two features are of one group, so that they add up and do not meet.
func (s *State) Together(a, b int32) bool {
	return s.Group != nil && s.Group[s.Field[a]] == s.Group[s.Field[b]]
}

// Starts reports whether the coordinates of a field are among those that Start begins with.
func (s *State) Starts(f int) bool { return s.Leads(f) && !s.IsMainOnly(f) }

// Leads reports whether a field is one that the others of its group belong to.
func (s *State) Leads(f int) bool { return s.Group == nil || int(s.Group[f]) == f }

// InGroup reports whether feature j is one of those whose rows add up for a group.
func (s *State) InGroup(j, group int32) bool {
	f := int(s.Field[j])
	return s.GroupOf(f) == group && !s.IsMainOnly(f)
}

// GroupOf returns the group of a field, which is its own without groups.
func (s *State) GroupOf(f int) int32 {
	if s.Group == nil {
		return int32(f)
	}
	return s.Group[f]
}
