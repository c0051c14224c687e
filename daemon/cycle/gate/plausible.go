package gate

import (
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
)

// hides reports whether a label that training rows have, or the absence of one, came on fewer than LeastOfLabel of the
// given select and gate rows. What rows of that label gain or lose is not known then.
func hides(j *task.Task, chosen, gate []int) bool {
	if j.Target.IsNumeric() || j.Criteria.Means == nil {
		return false
	}
	m := j.Target.Outputs()
	// Counts by output: a class, a label, or a threshold between levels.
	having, n := make([]int, m), len(chosen)+len(gate)
	count := func(part *encode.Encoded, rows []int) {
		for _, i := range rows {
			for c, target := range part.Targets[i*m : i*m+m] {
				if target > 0 {
					having[c]++
				}
			}
		}
	}
	count(j.Rows.Select_, chosen)
	count(j.Rows.Gate, gate)
	for c, share := range j.Criteria.Means.Frequencies {
		if share > 0 && having[c] < LeastOfLabel {
			return true
		}
		// Of exclusive classes the absence of one is the presence of others: it needs no rows.
		if share < 1 && n-having[c] < LeastOfLabel && j.Target.Task != event.Multiclass {
			return true
		}
	}
	return false
}

// SelectDecides reports whether the select rows can decide between models: they need LeastOfLabel rows of either binary
// label. Without a row of the rarer label the model that says least of it wins, and the strength that such rows choose
// is next to none. The variational stage has its strength from the training rows, and its evidence decides.
func SelectDecides(j *task.Task) bool {
	ones := 0
	for _, one := range OnesOf(j, j.Rows.Select_) {
		if one {
			ones++
		}
	}
	return j.Target.Task != event.Binary || min(ones, len(j.Rows.Select_.Events)-ones) >= LeastOfLabel
}
