package format

import "strings"

// Forms of the model of a version (Meta.Form): which stage made it, and so by which figures the trainer says how far it
// got.
const (
	// FormConvex is of the convex stage: gap, gap_relative, gap_kind, gap_limit and basis_gap are about its objective.
	FormConvex = "convex"
	// FormVariational is of the variational stage, which has no gap: evidence and sweeps are about it.
	FormVariational = "variational"
	// FormUpdate is a refit with what was learned since, which has no gap either: the other figures are those of the
	// refit.
	FormUpdate = "update"
)

// settleForm says the form of a version whose trainer did not, and leaves out the gap where that was of the convex
// stage and the model is not.
func (m *Meta) settleForm() {
	if m.Form == "" {
		switch {
		case m.Kind == "update":
			m.Form = FormUpdate
		case m.Kind == "refit" && (m.Sweeps > 0 || strings.Contains(m.Solver, "variational")):
			m.Form = FormVariational
		case m.Kind == "refit":
			m.Form = FormConvex
		}
	}
	if m.Form == FormVariational || m.Form == FormUpdate {
		m.Gap, m.GapRelative, m.GapKind, m.GapLimit = nil, nil, "", ""
		m.BasisGap, m.BasisGapRelative, m.NuclearNorm = nil, nil, nil
	}
}
