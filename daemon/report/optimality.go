package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// LineSearchSolver is the solver of versions whose weights no refit was to bring to their optimum: train.refit was
// line_search.
const LineSearchSolver = "algorithm1:line_search"

// BySteps reports whether LineSearchSolver made the model, alone or with other stages after it.
func (v *Version) BySteps() bool { return strings.HasPrefix(v.Solver, LineSearchSolver) }

// limits says what keeps a certified gap above the tolerance.
var limits = map[solver.GapLimit]string{
	solver.LimitWeights: "; its weights limit it",
	solver.LimitVectors: "; vectors that are not in the model limit it",
	solver.LimitBound:   "; its bound limits it, no better vector was found",
}

// Optimality says in words how far the refit behind a version got. Of a model of the convex stage that is the distance
// of its objective to the optimum, which says nothing of how often it errs; of one of the variational stage the
// evidence and the sweeps.
func (v *Version) Optimality() string {
	switch v.Form {
	case format.FormUpdate:
		return "an update: the refit before it with what was learned since"
	case format.FormVariational:
		if v.Evidence == nil {
			return "variational"
		}
		return fmt.Sprintf("variational, evidence %s after %s", number(v.Evidence), Count(v.Sweeps, "sweep"))
	}
	if v.GapRelative == nil {
		return "distance to the optimum unknown"
	}
	text := "objective "
	if v.FeatureMap != "" { // its weights depend on that part
		text = "objective of the convex part "
	}
	switch gap := float64(*v.GapRelative); {
	case !(gap < 1):
		text += "at an unknown distance to the optimum"
	case v.GapKind == "estimated":
		text += fmt.Sprintf("within %s of the optimum (estimated)", about(gap))
	default:
		text += fmt.Sprintf("within %s of the optimum (%s%s)", Percent(gap), v.GapKind,
			limits[solver.GapLimit(v.GapLimit)])
	}
	if v.BasisGapRelative != nil && *v.BasisGapRelative < 1 {
		text += fmt.Sprintf(", within %s of the best with these basis vectors", Percent(float64(*v.BasisGapRelative)))
	}
	if v.NuclearNorm != nil {
		text += fmt.Sprintf(", nuclear norm %s at rank %d", number(v.NuclearNorm), v.K)
	}
	return text
}

// OptimalityHeldOut is Optimality with the held-out loss, if the version is a refit that has one.
func (v *Version) OptimalityHeldOut() string {
	text := v.Optimality()
	if v.Form == format.FormUpdate || v.Gate == nil || v.Gate.Loss == nil {
		return text
	}
	return text + ", held-out " + v.Gate.headline()
}

// headline is the RMSE of predictions that are numbers, of which the gate compares the square, and the loss of others:
// one scale for people.
func (m *Metrics) headline() string {
	if m.RMSE != nil {
		return "RMSE " + number(m.RMSE)
	}
	return "loss " + number(m.Loss)
}

// Count writes a number of things: 1 sweep, 2 sweeps.
func Count[N int | int32 | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Percent writes a share with two significant digits, or that it is less than 0.01 %.
func Percent(share float64) string {
	p := 100 * share
	switch {
	case math.IsNaN(p):
		return "an unknown share"
	case p == 0:
		return "0 %"
	case p < 0.01:
		return "less than 0.01 %"
	case p >= 10:
		return strconv.FormatFloat(p, 'f', 0, 64) + " %"
	}
	return strconv.FormatFloat(p, 'g', 2, 64) + " %"
}

// about is Percent of an estimate.
func about(share float64) string {
	text := Percent(share)
	if strings.HasPrefix(text, "less ") {
		return text
	}
	return "about " + text
}
