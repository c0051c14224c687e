package fit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// TestFitOneClass: labels that are all the same are no task of classes, and the error names the file and the label.
func TestFitOneClass(t *testing.T) {
	path := offlinetest.WriteFile(t, "one", strings.Repeat("3 1:1\n", 8))
	m, err := ModelOf("", dataset.LIBSVM, "", path)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Model:  m,
		Data:   path,
		Format: dataset.LIBSVM,
		Split:  dataset.Fractions{Train: 0.5, Valid: 0.25, Test: 0.25},
		Now:    offlinetest.Clock,
	}
	_, err = offlinetest.Collect(t, func(out *report.Emitter) error { return Run(t.Context(), o, out) })
	offlinetest.WantExit(t, err, report.ExitUsage, `every label is "3"`)
}

// TestFitManyClasses: a file with 100,000 classes is refused with what they would take, before anything is trained.
func TestFitManyClasses(t *testing.T) {
	var lines strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&lines, "%d 1:%d\n", i, i%7)
	}
	path := offlinetest.WriteFile(t, "many", lines.String())
	m, err := ModelOf("", dataset.LIBSVM, "", path)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Model:  m,
		Data:   path,
		Format: dataset.LIBSVM,
		Split:  dataset.Fractions{Train: 0.5, Valid: 0.25, Test: 0.25},
		Now:    offlinetest.Clock,
	}
	_, err = offlinetest.Collect(t, func(out *report.Emitter) error { return Run(t.Context(), o, out) })
	offlinetest.WantExit(t, err, report.ExitUsage, "100000 different values")
	offlinetest.WantExit(t, err, report.ExitUsage, "76294 MiB")
}
