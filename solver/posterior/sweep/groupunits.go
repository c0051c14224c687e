package sweep

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/posterior"
	"gonum.org/v1/gonum/floats"
)

// groupUnits are the distinct sets of features that the rows of a sample have of one group: a user with age and
// occupation. A unit's row is the sum Σ x_j row_j of its features' rows. What the sample says of that sum, the
// evidence A_u and right side b_u, is added up once for all fields of the group; a feature's own is Σ_u x_j² A_u and
// Σ_u x_j (b_u − A_u (z_u − x_j m_j)) over the units that have it.
type groupUnits struct {
	size     int // units
	fields   []int
	exclude  []bool // per field: its features never meet in a unit
	start    []int  // size+1: the places of a unit's features in feature and value
	feature  []int32
	value    []float64
	features [][]int32 // per field, the features that occur
	from     []int     // d+1: the places of a feature's units in of and factor
	of       []int32
	factor   []float64

	q        int
	mean     []float64 // size×q
	cov      []float64 // size×packed
	evidence []float64 // size×packed
	right    []float64 // size×q
	plain    []float64 // of summed pairs: per unit Σ weight·(E w² − 2(t − θ)w), Σ weight·w and Σ weight·y (q)
}

// maxUnits returns the largest number of units of one side for n rows: with more, rows one by one are about as fast and
// take less memory.
func maxUnits(n int) int { return 5000 + n/10 }

// unitNumbers is how many numbers a unit takes: its block, sum, evidence, right side and covariance.
func unitNumbers(q int) int { return 2*posterior.PackedSize(q) + 3*q + 2 + blockSize(q-1) }

// newUnitPairs returns nil unless the rows have features of exactly two groups, and few enough distinct sets of them.
func newUnitPairs(r *Refit) *pairs {
	s, x := r.state, r.problem.X
	var groups []int32
	for _, j := range x.Index {
		if g := s.Group[s.Field[j]]; len(groups) < 3 && !s.IsMainOnly(int(s.Field[j])) && !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	if len(groups) != 2 {
		return nil
	}
	if slices.Index(s.Group, groups[0]) > slices.Index(s.Group, groups[1]) { // the side of the first field is swept first
		groups[0], groups[1] = groups[1], groups[0]
	}
	p := &pairs{refit: r}
	var of [2][]int32
	for n, g := range groups {
		u, units := newUnits(r, g)
		if u.size > maxUnits(x.NumRows()) {
			return nil
		}
		p.sides[n] = pairSide{field: u.fields[0], units: u, start: make([]int, u.size+1)}
		for _, t := range units {
			p.sides[n].start[t+1]++
		}
		for t := range u.size {
			p.sides[n].start[t+1] += p.sides[n].start[t]
		}
		of[n] = units
	}
	p.prepare(of[0], of[1])
	return p
}

// newUnits returns the units of a group and the unit of each row.
func newUnits(r *Refit, group int32) (*groupUnits, []int32) {
	s, x := r.state, r.problem.X
	q := s.RowSize()
	u := &groupUnits{start: []int{0}, q: q}
	local := make([]int, s.NumFields)
	for f := range s.NumFields {
		if s.GroupOf(f) == group && !s.IsMainOnly(f) {
			local[f] = len(u.fields)
			u.fields = append(u.fields, f)
		}
	}
	u.features, u.exclude = make([][]int32, len(u.fields)), make([]bool, len(u.fields))
	numbers := make(map[string]int32)
	of := make([]int32, x.NumRows())
	// Rows that have the same features of the group, with the same values to the bit, are one unit.
	var key []byte
	for i := range of {
		index, value := x.Row(i)
		key = key[:0]
		for e, j := range index {
			if s.InGroup(j, group) {
				key = binary.LittleEndian.AppendUint32(key, uint32(j))
				key = binary.LittleEndian.AppendUint64(key, math.Float64bits(value[e]))
			}
		}
		t, ok := numbers[string(key)]
		if !ok {
			t = int32(u.size) // units are numbered in the order in which they come
			numbers[string(key)] = t
			u.append(s, group, index, value)
		}
		of[i] = t
	}
	u.list(s, local)
	size := u.size
	u.mean, u.cov = make([]float64, size*q), make([]float64, size*posterior.PackedSize(q))
	u.evidence, u.right = make([]float64, size*posterior.PackedSize(q)), make([]float64, size*q)
	if s.Likelihood == posterior.Gaussian && s.MainOnly == nil {
		u.plain = make([]float64, size*(q+2))
	}
	return u, of
}

// append adds a unit: the entries of a row that are of the group.
func (u *groupUnits) append(s *posterior.State, group int32, index []int32, value []float64) {
	for e, j := range index {
		if s.InGroup(j, group) {
			u.feature, u.value = append(u.feature, j), append(u.value, value[e])
		}
	}
	u.size++
	u.start = append(u.start, len(u.feature))
}

// list lists the units of every feature and the features of every field.
func (u *groupUnits) list(s *posterior.State, local []int) {
	u.from = make([]int, len(s.Field)+1)
	for f := range u.exclude {
		u.exclude[f] = true
	}
	for t := range u.size {
		last := int32(-1)
		for _, j := range u.feature[u.start[t]:u.start[t+1]] {
			// Two features of one field in a unit: updates of the field go one after the other.
			if f := s.Field[j]; f == last {
				u.exclude[local[f]] = false
			}
			last = s.Field[j]
			u.from[j+1]++
		}
	}
	for j, f := range s.Field {
		if u.from[j+1] > 0 { // so the field is of the group
			u.features[local[f]] = append(u.features[local[f]], int32(j))
		}
		u.from[j+1] += u.from[j]
	}
	// The transpose, by counting sort: for each feature its units and the values there.
	u.of, u.factor = make([]int32, len(u.feature)), make([]float64, len(u.feature))
	next := append([]int(nil), u.from...)
	for t := range u.size {
		for e := u.start[t]; e < u.start[t+1]; e++ {
			j := u.feature[e]
			u.of[next[j]], u.factor[next[j]] = int32(t), u.value[e]
			next[j]++
		}
	}
}

// row returns the mean and packed covariance of a unit's sum, as addRows returns them.
func (u *groupUnits) row(t int) (mean, cov []float64) {
	p := posterior.PackedSize(u.q)
	return u.mean[t*u.q : t*u.q+u.q], u.cov[t*p : t*p+p]
}

// addRows adds up the rows of the units. O(entries·k²).
func (u *groupUnits) addRows(s *posterior.State) {
	clear(u.mean)
	clear(u.cov)
	for t := range u.size {
		mean, cov := u.row(t)
		for e := u.start[t]; e < u.start[t+1]; e++ {
			m, c := s.Row(int(u.feature[e]))
			x := u.value[e]
			dense.AddScaled(mean, x, m)
			// Rows of different features are independent in the posterior: covariances add up.
			dense.AddScaled(cov, x*x, c)
		}
	}
}

// keep stores what the sums over the partners of a unit say of its row.
func (u *groupUnits) keep(p *pairs, t int, sums, head []float64) {
	size, q := posterior.PackedSize(u.q), u.q
	p.evidence(u.evidence[t*size:t*size+size], u.right[t*q:t*q+q], sums, head)
	if u.plain != nil {
		plain := u.plain[t*(q+2) : (t+1)*(q+2)]
		plain[0] = sums[2*q] - 2*(head[q]-p.refit.state.Bias[0]*sums[q])
		plain[1] = sums[q]
		copy(plain[2:], sums[:q])
	}
}

// sweep updates the features of the group's fields, one field after the other, from what keep has stored.
func (u *groupUnits) sweep(p *pairs, n int) {
	s := p.refit.state
	u.addRows(s)
	for f, features := range u.features {
		block := featureBlock
		if !u.exclude[f] {
			block = max(1, len(features)) // features that meet are updated one after the other
		}
		p.each(len(features), block, func() func(lo, hi int) {
			w := &unitWork{
				groupUnits: u,
				solve:      posterior.NewSolver(u.q),
				old:        make([]float64, u.q),
				rest:       make([]float64, u.q),
				image:      make([]float64, u.q),
			}
			return func(lo, hi int) {
				for _, j := range features[lo:hi] {
					w.update(p.refit, j, u.fields[f])
				}
			}
		})
	}
	if n == 1 && u.plain != nil {
		u.addRows(s) // with the covariances as they are now
		u.residuals(p)
	}
}

// unitWork is the scratch of one goroutine.
type unitWork struct {
	*groupUnits
	solve *posterior.RowSolver
	old   []float64
	rest  []float64
	image []float64
}

// update solves for the posterior of feature j and moves the sums of its units. O(units·k² + k³).
func (w *unitWork) update(r *Refit, j int32, field int) {
	q, size := w.q, posterior.PackedSize(w.q)
	mean, cov := r.state.Row(int(j))
	copy(w.old, mean)
	w.solve.Start()
	for e := w.from[j]; e < w.from[j+1]; e++ {
		t, x := int(w.of[e]), w.factor[e]
		evidence := w.evidence[t*size : t*size+size]
		// The unit's sum without this feature is known: right side x·(b − A·rest), evidence x²·A, for the A and b that
		// keep has stored.
		floats.AddScaledTo(w.rest, w.mean[t*q:t*q+q], -x, w.old)
		posterior.Multiply(w.image, evidence, w.rest)
		dense.AddScaled(w.solve.Evidence, x*x, evidence)
		for a, b := range w.right[t*q : t*q+q] {
			w.solve.Right[a] += x * (b - w.image[a])
		}
	}
	w.solve.Finish(r.state.PrecisionOf(field), mean, cov, &r.logDet[j])
	// The sums of the units follow the mean at once; their covariances wait for addRows, as no update reads them.
	floats.SubTo(w.rest, mean, w.old)
	for e := w.from[j]; e < w.from[j+1]; e++ {
		t := int(w.of[e])
		dense.AddScaled(w.mean[t*q:t*q+q], w.factor[e], w.rest)
	}
}

// residuals stores what each unit adds to Σ weight·(E(t − o)² − (t − θ)²) and to Σ weight·(E o − t).
func (u *groupUnits) residuals(p *pairs) {
	noise, q, size := p.refit.state.Noise, u.q, posterior.PackedSize(u.q)
	for t := range u.size {
		mean, cov := u.row(t)
		evidence, plain := u.evidence[t*size:t*size+size], u.plain[t*(q+2):(t+1)*(q+2)]
		// E[vᵀA v] = v̄ᵀA v̄ + tr(A·C), over the packed lower triangle.
		second := posterior.Quadratic(evidence, mean)
		for a, at := 0, 0; a < q; a++ {
			for b := 0; b < a; b, at = b+1, at+1 {
				second += 2 * evidence[at] * cov[at]
			}
			second += evidence[at] * cov[at]
			at++
		}
		p.squares[t] = plain[0] + (second-2*floats.Dot(mean, u.right[t*q:t*q+q]))/noise
		p.errors[t] = plain[1] + floats.Dot(mean, plain[2:])
	}
}
