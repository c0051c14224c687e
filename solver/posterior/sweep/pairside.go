package sweep

// pairSide is one of the two fields, or groups.
type pairSide struct {
	field    int
	features []int32     // the field's features that occur, ascending: its units
	units    *groupUnits // of a group
	start    []int       // units+1: the places of a unit's rows in partner and rows
	partner  []int32     // the other unit of the row, as its place in the other side
	rows     []int32     // the rows
	weighted []float64   // summed: weight times target of the rows, in the same order
	weight   []float64   // summed: weights of the rows; nil when all are 1
}

// size returns the number of units.
func (s *pairSide) size() int { return len(s.start) - 1 }

// order lists the rows of both sides by unit and, within a unit, by partner: it scatters the rows by the units of the
// first side, the result by those of the second, and that by those of the first again, each time stably.
func (p *pairs) order(first, second []int32) {
	n := len(first)
	next := append([]int(nil), p.sides[0].start...)
	rows, partner := make([]int32, n), make([]int32, n)
	for i, t := range first {
		rows[next[t]], partner[next[t]] = int32(i), second[i]
		next[t]++
	}
	p.sides[1].scatter(p.sides[0].start, partner, rows)
	p.sides[0].scatter(p.sides[1].start, p.sides[1].partner, p.sides[1].rows)
	for n := range p.sides {
		p.sides[n].listTargets(p.refit, p.summed)
	}
}

// scatter takes the other side's lists, feature[e] being the feature of this side in the row rows[e], into this side's.
func (s *pairSide) scatter(otherStart []int, feature, rows []int32) {
	s.partner, s.rows = make([]int32, len(rows)), make([]int32, len(rows))
	next := append([]int(nil), s.start...)
	for l := range len(otherStart) - 1 {
		for e := otherStart[l]; e < otherStart[l+1]; e++ {
			at := next[feature[e]]
			next[feature[e]]++
			s.partner[at], s.rows[at] = int32(l), rows[e]
		}
	}
}

// listTargets lists the sums' weights and targets, where rows are summed; they are then not needed themselves.
func (s *pairSide) listTargets(r *Refit, summed bool) {
	if !summed {
		return
	}
	p := r.problem
	s.weighted = make([]float64, len(s.rows))
	for at, i := range s.rows {
		s.weighted[at] = p.Weight(int(i)) * p.Targets[i]
	}
	if p.Weights != nil {
		s.weight = make([]float64, len(s.rows))
		for at, i := range s.rows {
			s.weight[at] = p.Weights[i]
		}
	}
	s.rows = nil
}
