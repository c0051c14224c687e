package sweep

import (
	"context"

	"github.com/refitd/refitd/solver/posterior"
)

// unitRows sweeps the fields of several groups, or several fields with others that have linear weights alone, by
// units (units.go): what the rows say of a unit's row is added up over the rows that have it, once for all fields of
// its group.
type unitRows struct {
	refit  *Refit
	groups []int32       // the first field of each group, in the order of the fields
	units  []*groupUnits // per group, the distinct rows of it that the sample has
	of     [][]int32     // per group, the unit of each row
	start  [][]int       // per group, units+1: the places of a unit's rows in rows
	rows   [][]int32     // per group, the rows ordered by unit; within a unit in the order of the sample
	// The other columns of a row are constants while groups are swept: their mean is taken off the target, their
	// variance only adds to that of z.
	offset []float64 // per row, the mean of what linear weights alone add to z
	spread []float64 // and the variance
}

// maxUnitFields is how many fields without groups are swept by units at most: the evidence of a unit takes a pass over
// the others of its row, and with more of them rowTotals is faster. Chosen by hand.
const maxUnitFields = 4

// newUnitRows returns nil unless there are groups or fields with linear weights alone, few enough units and fields, and
// no two features of a field without a group that meet in a row: they interact.
func newUnitRows(r *Refit) *unitRows {
	s, n := r.state, r.problem.X.NumRows()
	if s.Group == nil && s.MainOnly == nil {
		return nil
	}
	w := &unitRows{refit: r, offset: make([]float64, n), spread: make([]float64, n)}
	all := 0
	for f := range s.NumFields {
		g := s.GroupOf(f)
		if int(g) != f || s.IsMainOnly(f) {
			continue
		}
		if s.Group == nil && (!r.apart[f] || len(w.units) == maxUnitFields) {
			return nil
		}
		u, of := newUnits(r, g)
		u.plain = nil // rows are not summed
		// Units pay while many rows share one. Where nearly every row is a unit, sums by row are as few and need less
		// memory.
		if all += u.size; all > 2*maxUnits(n) {
			return nil
		}
		// Counting sort of the rows by unit: start ends as the places of each unit in rows.
		start, rows := make([]int, u.size+1), make([]int32, n)
		for _, t := range of {
			start[t+1]++
		}
		for t := range u.size {
			start[t+1] += start[t]
		}
		next := append([]int(nil), start...)
		for i, t := range of {
			rows[next[t]] = int32(i)
			next[t]++
		}
		w.groups, w.units, w.of = append(w.groups, g), append(w.units, u), append(w.of, of)
		w.start, w.rows = append(w.start, start), append(w.rows, rows)
	}
	return w
}

// takeOffsets sets what linear weights alone add to every row.
func (w *unitRows) takeOffsets() {
	r := w.refit
	if r.state.MainOnly == nil {
		return
	}
	r.parallel(len(w.offset), func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			w.offset[i], w.spread[i] = r.state.MainEffects(r.problem.X.Row(i))
		}
	})
}

// sweepField updates all fields of a group when its turn comes, and what does not occur.
func (w *unitRows) sweepField(ctx context.Context, field int) error {
	r := w.refit
	for j, f := range r.state.Field {
		if int(f) == field && r.columns.count(j) == 0 {
			r.reset(j)
		}
	}
	for n, g := range w.groups {
		if int(g) == field {
			return w.sweepGroup(ctx, n)
		}
	}
	return nil
}

// sweepGroup updates the fields of group n. First each unit adds up what its rows say, in parallel, as no two units
// share a row; then the fields of the group solve for their features from those sums.
func (w *unitRows) sweepGroup(ctx context.Context, n int) error {
	r, u := w.refit, w.units[n]
	p := &pairs{refit: r}
	w.addRows()
	clear(u.evidence)
	clear(u.right)
	size := posterior.PackedSize(u.q)
	p.each(u.size, featureBlock, func() func(lo, hi int) {
		view := posterior.NewRowView(r.state.Sign)
		return func(lo, hi int) {
			if r.yield(ctx) != nil {
				return
			}
			for t := lo; t < hi; t++ {
				for _, i := range w.rows[n][w.start[n][t]:w.start[n][t+1]] {
					z := w.gather(view, int(i))
					// z without main effects is what the groups explain: ω·(t − offset).
					right := r.right[i] - r.omega[i]*w.offset[i]
					view.Accumulate(u.evidence[t*size:t*size+size], u.right[t*u.q:t*u.q+u.q], n, z, r.omega[i], right)
				}
			}
		}
	})
	if ctx.Err() == nil {
		u.sweep(p, n)
	}
	return ctx.Err()
}

// addRows adds up the rows of all units.
func (w *unitRows) addRows() {
	for _, u := range w.units {
		u.addRows(w.refit.state)
	}
}

// gather points the view at the units of a row, one entry for each group, and returns the mean of z without what linear
// weights alone add.
func (w *unitRows) gather(v *posterior.RowView, row int) float64 {
	v.Mean, v.Cov = v.Mean[:0], v.Cov[:0]
	// A unit counts with value 1: values of its features are in its row.
	for len(v.Value) < len(w.units) {
		v.Value = append(v.Value, 1)
	}
	for n, u := range w.units {
		m, c := u.row(int(w.of[n][row]))
		v.Mean, v.Cov = append(v.Mean, m), append(v.Cov, c)
	}
	return v.Predict()
}

// predict refreshes the mean and variance of z for every row.
func (w *unitRows) predict() {
	r := w.refit
	w.addRows()
	w.takeOffsets()
	r.parallel(len(r.mean), func(_, lo, hi int) {
		view := posterior.NewRowView(r.state.Sign)
		for i := lo; i < hi; i++ {
			r.mean[i] = w.gather(view, i) + w.offset[i]
			r.spread[i] = view.Variance() + w.spread[i]
		}
	})
}
