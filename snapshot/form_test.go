package snapshot

import (
	"bytes"
	"testing"
)

// TestOldManifestsKeepOnlyTheirOwnGap reads manifests without a form: the gap of the convex stage stays where its model
// was published, and no other.
func TestOldManifestsKeepOnlyTheirOwnGap(t *testing.T) {
	gap := Number(0.125)
	for _, c := range []struct {
		kind, solver string
		sweeps       int
		form         string
	}{
		{"refit", "algorithm1:hybrid", 0, FormConvex}, {"refit", "algorithm1:hybrid+variational", 3, FormVariational},
		{"refit", "output+variational", 0, FormVariational},
		{"update", "algorithm1:hybrid", 0, FormUpdate}, {"update", "algorithm1:hybrid+variational", 3, FormUpdate},
		{"", "", 0, ""},
	} {
		m := newManifest(testContents(small))
		m.Model, m.Version = "m", 1
		m.Kind, m.Solver, m.Sweeps, m.Gap, m.GapRelative, m.GapKind = c.kind, c.solver, c.sweeps, &gap, &gap, "certified"
		m.GapLimit, m.NuclearNorm = "bound", &gap
		b, err := m.encode()
		must(t, err)
		if bytes.Contains(b, []byte(`"form"`)) {
			t.Fatalf("the manifest says a form: %s", b)
		}
		got, err := decodeManifest(b)
		must(t, err)
		kept := got.Gap != nil && got.GapRelative != nil && got.GapKind == "certified" && got.GapLimit == "bound" &&
			got.NuclearNorm != nil
		none := got.Gap == nil && got.GapRelative == nil && got.GapKind == "" && got.GapLimit == "" &&
			got.NuclearNorm == nil
		if own := c.form == FormConvex || c.form == ""; got.Form != c.form || own && !kept || !own && !none {
			t.Errorf("%s by %s after %d sweeps: form %q, gap %v %v %q, limit %q", c.kind, c.solver, c.sweeps,
				got.Form, got.Gap, got.GapRelative,
				got.GapKind, got.GapLimit)
		}
	}
	first, err := Open("testdata/v1", "ratings", Selector{})
	must(t, err)
	if m := first.Manifest(); m.Form != FormVariational || m.Gap != nil || m.GapRelative != nil || m.GapKind != "" ||
		m.Evidence == nil {
		t.Errorf(
			"the first format's version: form %q, gap %v %v %q, evidence %v",
			m.Form,
			m.Gap,
			m.GapRelative,
			m.GapKind,
			m.Evidence,
		)
	}
}

// TestFormIsPublished reads back what a version says of its form.
func TestFormIsPublished(t *testing.T) {
	m := newManifest(testContents(small))
	gap, basis := Number(0.5), Number(0.25)
	m.Model, m.Version, m.Kind, m.Sweeps, m.Form = "m", 1, "refit", 3, FormConvex // a form that is said is believed
	m.Gap, m.GapRelative, m.BasisGap, m.BasisGapRelative, m.GapKind = &gap, &gap, &basis, &basis, "certified"
	b, err := m.encode()
	must(t, err)
	got, err := decodeManifest(b)
	must(t, err)
	if got.Form != FormConvex || got.Gap == nil || *got.Gap != gap || got.BasisGap == nil || *got.BasisGap != basis ||
		*got.BasisGapRelative != basis {
		t.Errorf("read %q, %v, %v", got.Form, got.Gap, got.BasisGap)
	}
}
