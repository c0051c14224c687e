package sweep

import (
	"math"

	"github.com/refitd/refitd/solver/posterior"
)

// nestedFields is one group of fields that holds the rows of a lead field (a user) and the rows of fields that are
// functions of it (age, occupation). A part of every lead row can be moved into the rows of the others without
// changing any prediction. Sweeps, one block at a time, take long to find the best such part: where the row of a
// feature is known well, every row of the group holds the others in place.
type nestedFields struct {
	lead  []int32 // features of the lead field
	start []int   // len(lead)+1: the places of a lead feature's others in other and value
	other []int32 // features of the other fields, as places in features
	value []float64

	features []int32 // features of the other fields that may take a part
}

// leadings lists the groups of more than one field, nil without groups. A feature of another field that is not with
// every row of a lead feature in the same way is left out.
func (r *Refit) leadings() []*nestedFields {
	s := r.state
	if s.Group == nil {
		return nil
	}
	members := make([]int, s.NumFields)
	for _, g := range s.Group {
		members[g]++
	}
	var all []*nestedFields
	for g, n := range members {
		if n > 1 {
			if l := r.leadingOf(int32(g)); l != nil {
				all = append(all, l)
			}
		}
	}
	return all
}

type companion struct {
	feature int32
	value   float64
}

func (r *Refit) leadingOf(group int32) *nestedFields {
	s, x := r.state, r.problem.X
	companions := make(map[int32][]companion) // by lead feature, from its first row
	loose := make(map[int32]bool)
	var here []companion
	for i := range x.NumRows() {
		index, value := x.Row(i)
		lead := int32(-1)
		here = here[:0]
		for e, j := range index {
			switch {
			case s.Field[j] == group:
				if lead >= 0 {
					return nil // a list of names leads nothing
				}
				lead = j
			case s.Group[s.Field[j]] == group:
				here = append(here, companion{j, value[e]})
			}
		}
		if lead < 0 {
			for _, c := range here {
				loose[c.feature] = true
			}
			continue
		}
		// What is with the lead feature in its first row has to be with it in all: else a part moved there changes
		// predictions.
		first, ok := companions[lead]
		if !ok {
			companions[lead] = append([]companion(nil), here...)
			continue
		}
		markLoose(loose, first, here)
	}
	return r.leadingBy(group, companions, loose)
}

// leadingBy returns the features of a group's field with the companions that each leads: those that are not loose.
func (r *Refit) leadingBy(group int32, companions map[int32][]companion, loose map[int32]bool) *nestedFields {
	l := &nestedFields{start: []int{0}}
	place := make(map[int32]int32)
	for j, f := range r.state.Field {
		if f != group || companions[int32(j)] == nil {
			continue
		}
		l.lead = append(l.lead, int32(j))
		for _, c := range companions[int32(j)] {
			if loose[c.feature] {
				continue
			}
			at, ok := place[c.feature]
			if !ok {
				at = int32(len(l.features))
				place[c.feature], l.features = at, append(l.features, c.feature)
			}
			l.other, l.value = append(l.other, at), append(l.value, c.value)
		}
		l.start = append(l.start, len(l.other))
	}
	return l
}

// markLoose marks the features in which two lists, ordered by feature, differ.
func markLoose(loose map[int32]bool, a, b []companion) {
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].feature < b[0].feature:
			loose[a[0].feature] = true
			a = a[1:]
		case len(a) == 0 || b[0].feature < a[0].feature:
			loose[b[0].feature] = true
			b = b[1:]
		default:
			if a[0].value != b[0].value {
				loose[a[0].feature] = true
			}
			a, b = a[1:], b[1:]
		}
	}
}

// recenterSteps bounds the steps of conjugate gradients, and recenterTolerance ends them by the relative size of the
// residual. Chosen by hand.
const (
	recenterSteps     = 30
	recenterTolerance = 1e-6
)

// recenter moves from the lead rows m_u into the rows m_j of the others, coordinate by coordinate, the part δ that
// leaves the least of both:
//
//	min_δ  D Σ_u (m_u − Σ_j x_uj δ_j)² + Σ_j D_j (m_j + δ_j)²
//
// No prediction changes and the evidence rises. What a new lead feature starts from is then the regression of the known
// ones on the other fields.
// O(steps·q·nnz).
func (l *nestedFields) recenter(s *posterior.State) {
	n := len(l.features)
	delta, right, diagonal := make([]float64, n), make([]float64, n), make([]float64, n)
	own, work := make([]float64, len(l.lead)), make([]float64, len(l.lead))
	if n == 0 || len(l.lead) == 0 {
		return
	}
	q := s.RowSize()
	for a := range q {
		d := s.PrecisionOf(int(s.Field[l.lead[0]]))[a]
		for t, j := range l.features {
			p := s.PrecisionOf(int(s.Field[j]))[a]
			diagonal[t], right[t] = p, -p*s.Mean[int(j)*q+a]
		}
		for t, u := range l.lead {
			own[t] = d * s.Mean[int(u)*q+a]
		}
		l.addTransposed(right, own)
		l.solve(delta, right, diagonal, d, work)
		for t, j := range l.features {
			s.Mean[int(j)*q+a] += delta[t]
		}
		l.times(own, delta)
		for t, u := range l.lead {
			s.Mean[int(u)*q+a] -= own[t]
		}
	}
}

// times stores X v in dst.
func (l *nestedFields) times(dst, v []float64) {
	for t := range dst {
		sum := 0.0
		for e := l.start[t]; e < l.start[t+1]; e++ {
			sum += l.value[e] * v[l.other[e]]
		}
		dst[t] = sum
	}
}

// addTransposed adds Xᵀ v to dst.
func (l *nestedFields) addTransposed(dst, v []float64) {
	for t, w := range v {
		for e := l.start[t]; e < l.start[t+1]; e++ {
			dst[l.other[e]] += l.value[e] * w
		}
	}
}

// solve stores in x the solution of (d XᵀX + diag) x = right by conjugate gradients with the diagonal as
// preconditioner (Hestenes and Stiefel 1952).
func (l *nestedFields) solve(x, right, diag []float64, d float64, work []float64) {
	n := len(x)
	scale := append([]float64(nil), diag...)
	for e, t := range l.other {
		scale[t] += d * l.value[e] * l.value[e]
	}
	residual := append([]float64(nil), right...)
	step, image := make([]float64, n), make([]float64, n)
	clear(x)
	last, first := 0.0, 0.0
	for range recenterSteps {
		now := 0.0
		for t, v := range residual {
			now += v * v / scale[t]
		}
		if first == 0 {
			first = now
		}
		if !(now > recenterTolerance*recenterTolerance*first) || math.IsInf(now, 1) {
			return
		}
		again := 0.0
		if last > 0 {
			again = now / last
		}
		for t, v := range residual {
			step[t] = v/scale[t] + again*step[t]
		}
		last = now
		l.times(work, step)
		for t := range work {
			work[t] *= d
		}
		for t := range image {
			image[t] = diag[t] * step[t]
		}
		l.addTransposed(image, work)
		curve := 0.0
		for t, v := range step {
			curve += v * image[t]
		}
		alpha := now / curve
		for t, v := range step {
			x[t] += alpha * v
			residual[t] -= alpha * image[t]
		}
	}
}
