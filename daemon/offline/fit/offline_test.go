package fit

import (
	"testing"

	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// fitOptions are the options of the command line without any flag.
func fitOptions(t *testing.T, format dataset.Format, task, path string) Options {
	t.Helper()
	m, err := ModelOf("toy", format, task, path)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Model:  m,
		Data:   path,
		Format: format,
		Split:  dataset.Fractions{Train: 0.5, Valid: 0.25, Test: 0.25},
		Seed:   1,
		Now:    offlinetest.Clock,
	}
}

// fitLines runs a fit and returns its lines; it fails on an error.
func fitLines(t *testing.T, o Options) []offlinetest.Line {
	t.Helper()
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Run(t.Context(), o, out) })
	if err != nil {
		t.Fatal(err)
	}
	if offlinetest.Last(lines)["type"] != "summary" {
		t.Fatalf("last line %v", offlinetest.Last(lines))
	}
	return lines
}
