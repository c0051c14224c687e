package posterior

import "slices"

// Loadings say how the rows of Model are made of those of a state: what a row has in basis vector v is
// Sign[field][v]·Scale[v] times coordinate Coordinate[v] of the state's row. With it a reader of the model adds
// further rows.
type Loadings struct {
	Coordinate []int     // of each basis vector of the model
	Scale      []float64 // positive
	Sign       [][]int   // per field: 1, -1, or 0 where a row of the field has nothing in the vector
}

// Loadings returns those of Model. A field of a group that has no separate part in some coordinate, which a square of
// the model would need, has the sign 0 in all vectors of that coordinate; one with linear weights alone has 0
// everywhere.
func (s *State) Loadings() *Loadings {
	vectors := s.vectors()
	if s.Group != nil {
		vectors = s.groupedVectors(vectors)
	}
	l := &Loadings{
		Coordinate: make([]int, len(vectors)),
		Scale:      make([]float64, len(vectors)),
		Sign:       make([][]int, s.NumFields),
	}
	for v := range vectors {
		l.Coordinate[v], l.Scale[v] = vectors[v].r, vectors[v].scale()
	}
	for f := range l.Sign {
		l.Sign[f] = make([]int, len(vectors))
		if s.IsMainOnly(f) {
			continue
		}
		group := s.GroupOf(f)
		for v := range vectors {
			if s.isWhole(vectors, vectors[v].r, group) {
				l.Sign[f][v] = int(vectors[v].factor(group))
			}
		}
	}
	return l
}

// Row stores in dst (length the vectors of the model) what a row of a field with the given coordinates (length NumBasis
// of the state) has in the model. It reports whether that is all of it: false where a coordinate that was 0 in all rows
// of the field, so that the model does without it, is not 0 here.
func (l *Loadings) Row(dst []float64, field int, coordinates []float64) (whole bool) {
	whole = true
	v, sign := 0, l.Sign[field]
	for r, x := range coordinates {
		held := false
		for ; v < len(dst) && l.Coordinate[v] == r; v++ {
			dst[v] = float64(sign[v]) * x * l.Scale[v]
			held = held || sign[v] != 0
		}
		whole = whole && (held || x == 0)
	}
	return whole
}

// isWhole reports whether the vectors of a coordinate have all that takes the squares of a group's own rows away.
func (s *State) isWhole(vectors []vector, r int, group int32) bool {
	if s.Group == nil {
		return true
	}
	return slices.ContainsFunc(vectors,
		func(v vector) bool { return v.r == r && (v.minus != everyGroup || v.only == group) })
}
