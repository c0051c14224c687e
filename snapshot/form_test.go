package snapshot

import (
	"bytes"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/verify"
)

// TestOldManifestsKeepOnlyTheirOwnGap reads manifests without a form: the gap of the convex stage stays where its model
// was published, and no other.
func TestOldManifestsKeepOnlyTheirOwnGap(t *testing.T) {
	gap := format.Number(0.125)
	for _, c := range []struct {
		kind, solver string
		sweeps       int
		form         string
	}{
		{"refit", "algorithm1:hybrid", 0, format.FormConvex}, {"refit", "algorithm1:hybrid+variational", 3,
			format.FormVariational},
		{"refit", "output+variational", 0, format.FormVariational},
		{"update", "algorithm1:hybrid", 0, format.FormUpdate}, {"update", "algorithm1:hybrid+variational", 3,
			format.FormUpdate},
		{"", "", 0, ""},
	} {
		m := format.NewManifest(snapshottest.TestContents(snapshottest.Small))
		m.Model, m.Version = "m", 1
		m.Kind, m.Solver, m.Sweeps, m.Gap, m.GapRelative, m.GapKind = c.kind, c.solver, c.sweeps, &gap, &gap, "certified"
		m.GapLimit, m.NuclearNorm = "bound", &gap
		b, err := m.Encode()
		snapshottest.Must(t, err)
		if bytes.Contains(b, []byte(`"form"`)) {
			t.Fatalf("the manifest says a form: %s", b)
		}
		got, err := format.DecodeManifest(b)
		snapshottest.Must(t, err)
		kept := got.Gap != nil && got.GapRelative != nil && got.GapKind == "certified" && got.GapLimit == "bound" &&
			got.NuclearNorm != nil
		none := got.Gap == nil && got.GapRelative == nil && got.GapKind == "" && got.GapLimit == "" &&
			got.NuclearNorm == nil
		if own := c.form == format.FormConvex || c.form == ""; got.Form != c.form || own && !kept || !own && !none {
			t.Errorf("%s by %s after %d sweeps: form %q, gap %v %v %q, limit %q", c.kind, c.solver, c.sweeps,
				got.Form, got.Gap, got.GapRelative,
				got.GapKind, got.GapLimit)
		}
	}
	first, err := Open("testdata/v1", "ratings", verify.Selector{})
	snapshottest.Must(t, err)
	if m := first.Manifest(); m.Form != format.FormVariational || m.Gap != nil || m.GapRelative != nil ||
		m.GapKind != "" ||
		m.Evidence == nil {
		t.Errorf("the first format's version: form %q, gap %v %v %q, evidence %v", m.Form, m.Gap, m.GapRelative,
			m.GapKind, m.Evidence)
	}
}
