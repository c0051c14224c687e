package variational

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/sweep"
)

// When a field interacts: a pair of fields whose interaction has a Z of interactionEnters makes both interact, and they
// do until no pair of theirs has one of interactionStays any more. They are tested when the rows have grown by
// retestGrowth since the champion's refit, and after every retestVersions versions. Chosen by hand.
const (
	interactionEnters = 3.5
	interactionStays  = 1.5
	retestGrowth      = 1.3
	retestVersions    = 10

	// times the sweeps of a warm refit, for one whose variational stage starts from nothing in place of the last one
	RestartSweeps = 3
)

// ChooseInteractions decides which fields interact and makes the warm start follow: where a field newly does, or groups
// have changed, the variational stage starts from nothing, for sweeps do not leave the saddle at coordinates that are
// all 0. It returns posterior.State.MainOnly, and whether a last stage exists that this one does not continue.
func ChooseInteractions(j *task.Task, warm *task.WarmStart) (mainOnly []bool, restarted bool) {
	mainOnly = chooseMainOnly(j, warm)
	if warm == nil {
		return mainOnly, false
	}
	for _, s := range []**posterior.State{&warm.Posterior, &warm.Gaussian} {
		switch {
		case *s == nil || (*s).Separate:
		case !slices.Equal((*s).Group, j.Rows.Groups) || entersInteraction((*s).MainOnly, mainOnly):
			*s, restarted = nil, true
		default:
			(*s).SetMainOnly(mainOnly)
		}
	}
	return mainOnly, restarted
}

// entersInteraction reports whether a field that had linear weights alone has more now.
func entersInteraction(before, now []bool) bool {
	for f, only := range before {
		if only && (now == nil || !now[f]) {
			return true
		}
	}
	return false
}

// chooseMainOnly returns posterior.State.MainOnly, nil if all fields interact: with two fields or groups of fields,
// with a constant among them, and for outputs that do not share their interactions. Where no pair is clear, those
// fields interact that others are functions of, if there are two, else none. A group does what its first field does. A
// cross, which says all that its parts do together, never interacts.
func chooseMainOnly(j *task.Task, warm *task.WarmStart) []bool {
	if j.Target.Task.HasClasses() || j.Vocab.Augment || j.Model.Train.Refit != "variational" {
		return nil
	}
	var fields []int
	for f := range j.Vocab.NumFields() {
		if !j.Schema.IsCross(f) && (j.Rows.Groups == nil || int(j.Rows.Groups[f]) == f) {
			fields = append(fields, f)
		}
	}
	crosses := len(j.Schema.Cross)
	if len(fields) < 3 && crosses == 0 {
		return nil
	}
	var last *posterior.State
	var before []bool
	if warm != nil && warm.Posterior != nil && slices.Equal(warm.Posterior.Group, j.Rows.Groups) {
		if last = warm.Posterior; !Retests(j, warm) {
			return last.MainOnly
		}
		before = last.MainOnly
	}
	interacts := fields
	if len(fields) > 2 && !j.Model.LeavesOut(task.ChoiceInteractions) {
		interacts = interacting(j, fields, last != nil, before)
	}
	if len(interacts) == len(fields) && crosses == 0 {
		return nil
	}
	only := make([]bool, j.Vocab.NumFields())
	for f := range only {
		lead := f
		if j.Rows.Groups != nil {
			lead = int(j.Rows.Groups[f])
		}
		only[f] = !slices.Contains(interacts, lead)
	}
	return only
}

// MaxGroups is how many groups of fields interact at most where fields are functions of others: those of the clearest
// pairs. The published model has a basis vector for the sum of all groups and one for each. Chosen by hand.
const MaxGroups = 3

// interacting returns those of the given fields that interact. warm says that before is what the last refit chose.
func interacting(j *task.Task, fields []int, warm bool, before []bool) []int {
	random := rand.New(rand.NewPCG(j.Model.Train.Seed, 0x7061697273)) // "pairs": apart from other uses of the seed
	tested := sweep.Interactions(j.Target.Likelihood, withoutCrosses(j), fields, random)
	// Hysteresis: a field that interacts stays for less than it took to enter, so that it does not come and go by
	// chance.
	was := func(f int) bool { return warm && (before == nil || !before[f]) }
	slices.SortStableFunc(tested, func(a, b sweep.Interaction) int { return cmp.Compare(b.Z, a.Z) })
	var out []int
	for _, p := range tested {
		if p.Z <= interactionEnters && (p.Z <= interactionStays || !was(p.A) || !was(p.B)) {
			continue
		}
		with := out
		for _, f := range []int{p.A, p.B} {
			if !slices.Contains(with, f) {
				with = append(with, f)
			}
		}
		// The clearest pairs come first: where there is no room for more groups, the rest is left out.
		if j.Rows.Groups == nil || len(with) <= MaxGroups {
			out = with
		}
	}
	if leads := isAhead(j); len(out) == 0 && len(leads) > 1 {
		return leads[:min(len(leads), MaxGroups)]
	}
	return out
}

// isAhead returns the fields that others are functions of: the entities.
func isAhead(j *task.Task) (fields []int) {
	for f, g := range j.Rows.Groups {
		if lead := int(g); lead != f && !slices.Contains(fields, lead) {
			fields = append(fields, lead)
		}
	}
	return fields
}

// withoutCrosses returns the problem without the columns of crosses, whose linear weights would absorb the interactions
// of their parts.
func withoutCrosses(j *task.Task) *solver.Problem {
	if len(j.Schema.Cross) == 0 {
		return j.Rows.Problem
	}
	p, x := *j.Rows.Problem, j.Rows.Problem.X
	rows := solver.NewRows(j.Vocab.NumColumns(), x.NumRows(), len(x.Index))
	var index []int32
	var value []float64
	for i := range x.NumRows() {
		index, value = index[:0], value[:0]
		columns, values := x.Row(i)
		for e, column := range columns {
			if !j.Schema.IsCross(int(j.Vocab.Field[column])) {
				index, value = append(index, column), append(value, values[e])
			}
		}
		rows.Append(index, value)
	}
	p.X = rows
	return &p
}

// Retests reports whether it is time to test again which fields interact.
func Retests(j *task.Task, warm *task.WarmStart) bool {
	step := func(rows float64) float64 { return math.Floor(math.Log(max(1, rows)) / math.Log(retestGrowth)) }
	return step(float64(j.Rows.Problem.X.NumRows())) != step(float64(warm.Rows)) || warm.Version%retestVersions == 0
}
