package offline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/report"
)

// TestFitOneClass: labels that are all the same are no task of classes, and the error names the file and the label.
func TestFitOneClass(t *testing.T) {
	path := writeFile(t, "one", strings.Repeat("3 1:1\n", 8))
	m, err := FitModel("", dataset.LIBSVM, "", path)
	if err != nil {
		t.Fatal(err)
	}
	o := FitOptions{Model: m, Data: path, Format: dataset.LIBSVM, Split: dataset.Fractions{Train: 0.5, Valid: 0.25, Test: 0.25}, Now: clock}
	_, err = collect(t, func(out *report.Emitter) error { return Fit(t.Context(), o, out) })
	wantExit(t, err, report.ExitUsage, `every label is "3"`)
}

// TestFitManyClasses: a file with 100,000 classes is refused with what they would take, before anything is trained.
func TestFitManyClasses(t *testing.T) {
	var lines strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&lines, "%d 1:%d\n", i, i%7)
	}
	path := writeFile(t, "many", lines.String())
	m, err := FitModel("", dataset.LIBSVM, "", path)
	if err != nil {
		t.Fatal(err)
	}
	o := FitOptions{Model: m, Data: path, Format: dataset.LIBSVM, Split: dataset.Fractions{Train: 0.5, Valid: 0.25, Test: 0.25}, Now: clock}
	_, err = collect(t, func(out *report.Emitter) error { return Fit(t.Context(), o, out) })
	wantExit(t, err, report.ExitUsage, "100000 different values")
	wantExit(t, err, report.ExitUsage, "76294 MiB")
}
