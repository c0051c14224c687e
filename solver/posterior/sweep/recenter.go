package sweep

import "gonum.org/v1/gonum/floats"

// recenter moves the mean of the linear weights of a field into θ where every row has exactly one feature of the
// field, of value 1: no prediction changes (mean holds the predictions without θ: n, or n×m for separate outputs),
// and the weights come closer to their prior, so the evidence rises. Sweeps alone, one block at a time, take long to
// get there, and what a feature that the sample lacks is worth would be arbitrary until then.
func (r *Refit) recenter(mean []float64) {
	s := r.state
	q, linear := s.RowSize(), s.NumLinear()
	center := make([]float64, s.NumFields*linear)
	for j, f := range s.Field {
		if r.columns.count(j) > 0 {
			floats.AddScaled(center[int(f)*linear:int(f+1)*linear], 1/r.counts[f], s.Mean[j*q:j*q+linear])
		}
	}
	shift := make([]float64, linear)
	for f, exclusive := range r.exclusive {
		part := center[f*linear : (f+1)*linear]
		// Rows without a feature of the field, or with two, would predict something else.
		if !exclusive {
			clear(part)
		}
		floats.Add(shift, part)
	}
	for j, f := range s.Field {
		if r.columns.count(j) > 0 {
			floats.Sub(s.Mean[j*q:j*q+linear], center[int(f)*linear:int(f+1)*linear])
		}
	}
	for c := range s.Bias {
		s.Bias[c] += shift[min(c, linear-1)]
	}
	for i := range mean {
		mean[i] -= shift[i%linear]
	}
}

// exclusiveFields reports for every field whether each row has exactly one of its features, of value 1.
func (r *Refit) exclusiveFields() []bool {
	x, fields := r.problem.X, r.state.Field
	exclusive, seen := make([]bool, r.state.NumFields), make([]int, r.state.NumFields)
	for f := range exclusive {
		exclusive[f] = true
	}
	for i := range x.NumRows() {
		clear(seen)
		index, value := x.Row(i)
		for e, j := range index {
			seen[fields[j]]++
			if value[e] != 1 {
				exclusive[fields[j]] = false
			}
		}
		for f, n := range seen {
			exclusive[f] = exclusive[f] && n == 1
		}
	}
	return exclusive
}
