package format_test

import (
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// TestFormIsPublished reads back what a version says of its form.
func TestFormIsPublished(t *testing.T) {
	m := format.NewManifest(snapshottest.TestContents(snapshottest.Small))
	gap, basis := format.Number(0.5), format.Number(0.25)
	m.Model, m.Version, m.Kind, m.Sweeps, m.Form = "m", 1, "refit", 3, format.FormConvex // a form that is said is believed
	m.Gap, m.GapRelative, m.BasisGap, m.BasisGapRelative, m.GapKind = &gap, &gap, &basis, &basis, "certified"
	b, err := m.Encode()
	snapshottest.Must(t, err)
	got, err := format.DecodeManifest(b)
	snapshottest.Must(t, err)
	if got.Form != format.FormConvex || got.Gap == nil || *got.Gap != gap || got.BasisGap == nil ||
		*got.BasisGap != basis ||
		*got.BasisGapRelative != basis {
		t.Errorf("read %q, %v, %v", got.Form, got.Gap, got.BasisGap)
	}
}
