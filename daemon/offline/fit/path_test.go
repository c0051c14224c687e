package fit

import (
	"bytes"
	"context"
	"errors"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// pathOptions fits two λ of classes and plots them into a file of the given name.
func pathOptions(t *testing.T, name string) Options {
	t.Helper()
	o := fitOptions(t, dataset.LIBSVM, "",
		offlinetest.WriteFile(t, "toy", offlinetest.RatingLines(200, 1, offlinetest.Quadrant)))
	o.Model.Train.MaxBasis, o.Lambdas, o.Path = 3, []float64{1, 5}, filepath.Join(t.TempDir(), name)
	return o
}

func TestPathFigure(t *testing.T) {
	o := pathOptions(t, "path.png")
	var text bytes.Buffer
	if err := Run(t.Context(), o, report.NewEmitter(&text, false)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"regularisation path\nlambda  steps  k ", "best accuracy"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	file, err := os.Open(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := png.Decode(file); err != nil {
		t.Error(err)
	}
}

// TestPathSeries compares the lines of the figure with the steps.
func TestPathSeries(t *testing.T) {
	some := report.Some
	path := &report.Path{Steps: []report.Step{
		{Lambda: 2, K: 0, Objective: 9, Valid: &report.Metrics{Accuracy: some(0.5)}, Seconds: 1},
		{Lambda: 7, K: 0, Objective: 8, Valid: &report.Metrics{Accuracy: some(0.6)}, Seconds: 2},
		{Lambda: 2, K: 1, Objective: 7, Valid: &report.Metrics{Accuracy: some(0.7)}, Seconds: 3},
	}}
	f := pathFigure(path)
	if len(f.Panels) != 4 {
		t.Fatalf("%d panels, want accuracy and objective against k and seconds", len(f.Panels))
	}
	for p, want := range [][3]float64{{0, 1, 70}, {1, 3, 70}, {0, 1, 7}, {1, 3, 7}} { // first and last x, last y
		l := f.Panels[p].Lines
		if len(l) != 2 || l[0].Name != "λ = 2" || l[1].Name != "λ = 7" || len(l[0].X) != 2 || len(l[1].X) != 1 {
			t.Fatalf("panel %d has lines %v", p, l)
		}
		if got := [3]float64{l[0].X[0], l[0].X[1], l[0].Y[1]}; got != want {
			t.Errorf("panel %d: %v, want %v", p, got, want)
		}
	}
	for i := range path.Steps {
		path.Steps[i].Valid = nil
	}
	if f := pathFigure(path); len(f.Panels) != 2 {
		t.Errorf("%d panels without validation rows, want the objective's", len(f.Panels))
	}
}

// TestPathInterrupted stops a fit at its third step: what there is of the path is plotted.
func TestPathInterrupted(t *testing.T) {
	o := pathOptions(t, "path.svg")
	o.Model.Train.Threads = 1 // one λ at a time
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := report.NewEmitter(&cancelAfter{cancel: cancel, lines: 3}, true)
	if err := Run(ctx, o, out); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(raw), "λ = ") || strings.Count(string(raw), "λ = ") != 1 {
		t.Errorf("the figure of an interrupted path has %d λ, want the one that was begun",
			strings.Count(string(raw), "λ = "))
	}
}

// cancelAfter cancels once some lines were written.
type cancelAfter struct {
	cancel func()
	lines  int
}

func (c *cancelAfter) Write(b []byte) (int, error) {
	if c.lines--; c.lines == 0 {
		c.cancel()
	}
	return len(b), nil
}

func TestPathRefused(t *testing.T) {
	o := pathOptions(t, "path.gif")
	_, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Run(t.Context(), o, out) })
	offlinetest.WantExit(t, err, report.ExitUsage, "--path", ".svg or .png")
	if e, ok := errors.AsType[*report.ExitError](err); !ok || e.Key != "--path" {
		t.Errorf("key of %v", err)
	}
}
