package refit_test

import (
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/scorer"
)

// hasGap reports whether a version says one, and whether it says all of it.
func hasGap(v *report.Version) (some, all bool) {
	some = v.Gap != nil || v.GapRelative != nil || v.GapKind != "" || v.BasisGap != nil || v.BasisGapRelative != nil
	return some, v.Gap != nil && v.GapRelative != nil && v.GapKind != "" && v.BasisGap != nil &&
		v.BasisGapRelative != nil
}

// TestGapIsOfThePublishedModel: a version has the gap of the convex stage if that made its model, and else no gap:
// neither one of the variational stage nor an update has, in the manifest nor after a start from it.
func TestGapIsOfThePublishedModel(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	convex := cycletest.RatingsModel(
		func(m *config.Model) { m.Train.Refit, m.Train.MaxBasis = "output", 1 },
	) // too few vectors
	for _, x := range []struct {
		model  *config.Model
		events []event.Event
		form   string
	}{{cycletest.RatingsModel(nil), cycletest.Stream(5, 1200), format.FormVariational}, {convex, cycletest.Stream(5,
		1200), format.FormConvex},
		{switchModel(), cycletest.Numbers(5, 1200), format.FormConvex}} {
		c := newCycle(t, x.model)
		observeAll(c, x.events)
		first := mustRefit(t, c, sampleOf(x.events))
		v := &first.Version
		if some, all := hasGap(v); v.Form != x.form || all != (x.form == format.FormConvex) || some != all {
			t.Errorf("%s by %s: form %q with gap %v, %v %q, within the basis %v", x.model.Name, v.Solver, v.Form, v.Gap,
				v.GapRelative, v.GapKind, v.BasisGap)
		} else if all && (*v.GapRelative < 0 || *v.GapRelative > 1 || *v.BasisGapRelative < 0 || *v.BasisGap > *v.Gap) {
			t.Errorf("%s: gap %v of objective %v, within the basis %v", x.model.Name, *v.Gap, v.Objective, *v.BasisGap)
		}
		if x.model == convex && v.GapLimit == "" || x.form == format.FormVariational && v.GapLimit != "" {
			t.Errorf("%s: the gap %v is limited by %q", x.model.Name, v.GapRelative, v.GapLimit)
		}
		if (v.Evidence != nil) != (x.form == format.FormVariational) || v.Gate == nil || v.Gate.Loss == nil {
			t.Errorf("%s: evidence %v, judged %v", x.model.Name, v.Evidence, v.Gate)
		}
		m, err := scorer.NewModel(first.Contents(x.model))
		if err != nil {
			t.Fatal(err)
		}
		manifest := m.Manifest()
		again := fitted.VersionOf(&manifest)
		if some, all := hasGap(&again); again.Form != v.Form || some != all || all != (x.form == format.FormConvex) ||
			again.Optimality() != v.Optimality() || again.GapLimit != v.GapLimit {
			t.Errorf("%s: the manifest says %q, the version %q", x.model.Name, again.Optimality(), v.Optimality())
		}
		c.Install(first)
		u := c.Update()
		if some, _ := hasGap(&u.Version); u.Version.Form != format.FormUpdate || u.Version.Kind != "update" ||
			some || u.Version.GapLimit != "" {
			t.Errorf("%s: an update of form %q and gap %v", x.model.Name, u.Version.Form, u.Version.Gap)
		}
	}
}
