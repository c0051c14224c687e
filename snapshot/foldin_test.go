package snapshot

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

// TestFoldInIsPublished: a version carries its fold-in, in what is digested and signed; versions without one say why.
func TestFoldInIsPublished(t *testing.T) {
	dir := t.TempDir()
	for name, c := range snapshottest.FoldShapes() {
		for _, tensors := range []string{format.F64, format.F32} {
			c.Tensors = tensors
			model := strings.ToLower(name + "-" + tensors)
			if _, err := publish.NewStore(dir).Publish(t.Context(), model, c); err != nil {
				t.Fatal(err)
			}
			m, err := Open(dir, model, verify.Selector{Version: 1})
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Contents().FoldIn; !reflect.DeepEqual(got, c.FoldIn) {
				t.Errorf("%s: read back as %+v, want %+v", model, got, c.FoldIn)
			}
			built, err := scorer.NewModel(c)
			if err != nil {
				t.Fatal(err)
			}
			events := snapshottest.HistoryOf(c, "u3", 7)
			a, errA := m.Fold(events)
			b, errB := built.Fold(events)
			if err := errors.Join(errA, errB); err != nil {
				t.Fatal(err)
			}
			got, want := make([]float64, c.NumOutputs), make([]float64, c.NumOutputs)
			a.Score(got, &events[0].Input, new(scorer.Scratch))
			if b.Score(want, &events[0].Input, new(scorer.Scratch)); !slices.Equal(got, want) {
				t.Errorf("%s: %v once read back, %v before", model, got, want)
			}
		}
	}
	old, err := Open("testdata/v1", "ratings", verify.Selector{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Fold(make([]format.LabelledEvent, 1)); !errors.Is(err, scorer.ErrNoFoldIn) ||
		!strings.Contains(err.Error(), "written by a build without it") {
		t.Errorf("a version of an older build: %v", err)
	}
	c := snapshottest.TestContents(snapshottest.Shapes[0])
	c.NoFoldIn = "the model has no posterior"
	m, err := scorer.NewModel(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Fold(make([]format.LabelledEvent, 1)); !errors.Is(err, scorer.ErrNoFoldIn) ||
		!strings.Contains(err.Error(), c.NoFoldIn) {
		t.Errorf("a version without a posterior: %v", err)
	}
	over, err := m.Fold(nil)
	if err == nil {
		_, err = over.Learn(&format.LabelledEvent{})
	}
	if !errors.Is(err, scorer.ErrNoFoldIn) {
		t.Errorf("learned without a posterior: %v", err)
	}
}

// TestFoldInIsValidated: what a manifest may not say.
func TestFoldInIsValidated(t *testing.T) {
	for want, spoil := range map[string]func(f *format.FoldIn){
		"does not go with link":            func(f *format.FoldIn) { f.Likelihood = format.MultinomialLikelihood },
		"coordinates and":                  func(f *format.FoldIn) { f.Coordinates = f.Coordinates[1:] },
		"scales positive":                  func(f *format.FoldIn) { f.Scale[0] = 0 },
		"no fields":                        func(f *format.FoldIn) { f.Fields = nil },
		"is not a categorical field":       func(f *format.FoldIn) { f.Fields[0].Name = "tags" },
		"is there twice":                   func(f *format.FoldIn) { f.Fields[1].Name = "user" },
		"all positive":                     func(f *format.FoldIn) { f.Fields[0].Precision[1] = math.Inf(1) },
		"signs for":                        func(f *format.FoldIn) { f.Fields[0].Signs = nil },
		"has the sign 2":                   func(f *format.FoldIn) { f.Fields[0].Signs[0] = 2 },
		"of coordinate 7":                  func(f *format.FoldIn) { f.Coordinates[0] = 7 },
		"1 to 8 rates":                     func(f *format.FoldIn) { f.Fields[0].Rates[0] = 1.5 },
		"a loss of NaN":                    func(f *format.FoldIn) { f.Fields[0].Losses[0] = math.NaN() },
		"of coordinate 0 do not cancel":    func(f *format.FoldIn) { f.Scale[0] *= 1.01 },
		"label_range [2 1] is no range":    func(f *format.FoldIn) { f.LabelRange = []float64{2, 1} },
		"weights of basis vector 0 differ": nil,
	} {
		c := snapshottest.Foldable(snapshottest.Shape{Task: format.Ordinal, Link: format.OrdinalLink,
			Kernel: format.Homogeneous, K: 2, Linear: true, Mapped: ""}, true)
		if spoil == nil {
			c.Weights[1]++
		} else {
			spoil(c.FoldIn)
		}
		if strings.Contains(want, "cancel") {
			want = "the squares " + want
		}
		if _, err := scorer.NewModel(c); !errors.Is(err, disk.ErrContents) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	large := snapshottest.Foldable(snapshottest.Shape{Task: format.Regression, Link: format.Identity, Kernel: format.ANOVA,
		K: 2, Linear: true, Mapped: ""}, true)
	large.FoldIn.Fields[0].Precision = slices.Repeat([]float64{1.0 / 3}, 2000)
	if m, err := scorer.NewModel(large); err != nil || m.Contents().FoldIn != nil ||
		!strings.Contains(m.Manifest().NoFoldIn, "no room") {
		t.Errorf("a fold-in beyond the manifest: %v, want it left out with the reason", err)
	}
	large = snapshottest.Foldable(snapshottest.Shape{Task: format.Multiclass, Link: format.Softmax, Kernel: format.ANOVA,
		K: 0, Linear: true, Mapped: ""}, false)
	for i := range 3 { // names of classes leave it no room either
		large.Schema.Classes[i] = strings.Repeat(string(rune('a'+i)), 17_000)
	}
	large.FoldIn.Fields[1].Precision = slices.Repeat([]float64{1.0 / 3}, 500)
	large.Meta.Reason = strings.Repeat("because ", 1_000)
	dir := t.TempDir()
	if _, err := publish.NewStore(dir).Publish(t.Context(), "large", large); err != nil {
		t.Fatal(err)
	}
	if m, err := Open(dir, "large", verify.Selector{Version: 1}); err != nil || m.Contents().FoldIn != nil ||
		!strings.Contains(m.Manifest().NoFoldIn, "no room") {
		t.Errorf("a manifest that is full: %v, want the fold-in left out with the reason", err)
	}
}
