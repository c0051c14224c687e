package fittest

import (
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/fit"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// Published fits ratings, publishes the model and returns a reference to it, the summary and the lines of the file.
func Published(t *testing.T) (offline.SnapshotRef, offlinetest.Line, []string) {
	t.Helper()
	text := offlinetest.Ratings(1600, 1)
	o := Options(t, dataset.MovieLens, "", offlinetest.WriteFile(t, "u.data", strings.Join(text, "\n")))
	o.Store, o.Lambdas, o.Model.Train.MaxBasis = t.TempDir(), []float64{3, 10}, 4
	summary := offlinetest.Last(Lines(t, o))
	return offline.SnapshotRef{Versions: offline.Versions{Store: o.Store, Model: "toy"}}, summary, text
}

// Options are the options of the command line without any flag.
func Options(t *testing.T, format dataset.Format, task, path string) fit.Options {
	t.Helper()
	m, err := fit.ModelOf("toy", format, task, path)
	if err != nil {
		t.Fatal(err)
	}
	return fit.Options{
		Model:  m,
		Data:   path,
		Format: format,
		Split:  dataset.Fractions{Train: 0.5, Valid: 0.25, Test: 0.25},
		Seed:   1,
		Now:    offlinetest.Clock,
	}
}

// Lines runs a fit and returns its lines; it fails on an error.
func Lines(t *testing.T, o fit.Options) []offlinetest.Line {
	t.Helper()
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error { return fit.Run(t.Context(), o, out) })
	if err != nil {
		t.Fatal(err)
	}
	if offlinetest.Last(lines)["type"] != "summary" {
		t.Fatalf("last line %v", offlinetest.Last(lines))
	}
	return lines
}
