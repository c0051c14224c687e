package experiment

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/plot"
	"github.com/refitd/refitd/solver"
)

func TestBars(t *testing.T) {
	for _, c := range []struct {
		bar Bar
		met bool
	}{
		{Bar{Got: 92, Want: 92}, true}, {Bar{Got: 91.99, Want: 92}, false}, {Bar{Got: math.NaN(), Want: 92}, false},
		{Bar{Got: math.NaN(), AtMost: true, Want: 1}, false},
		{Bar{Got: 0.93, AtMost: true, Want: 0.935}, true}, {Bar{Got: 0.94, AtMost: true, Want: 0.935}, false},
		{Bar{Got: 0.935, AtMost: true, Want: 0.935}, true},
	} {
		if c.bar.IsMet() != c.met {
			t.Errorf("%+v: met %v", c.bar, !c.met)
		}
	}
	if bar := cellBar("letter", solver.OutputLayer, solver.L1L2, 91.94, cell{mean: 92.3, sd: 0.18}); !bar.IsMet() ||
		math.Abs(bar.Want-91.94) > 1e-9 {
		t.Errorf("bar %+v, want two deviations below the mean", bar)
	}
}

func TestReport(t *testing.T) {
	r := &Report{Name: "toy",
		Tables: []Table{
			{Title: "Toy", Header: []string{"set", "ℓ1"}, Rows: [][]string{{"vowel", "1"}}, Notes: []string{"A note."}},
		},
		Numbers: []Table{{Name: "n", Header: []string{"a", "b"}}},
		Figures: []Figure{
			{
				Name: "f",
				Figure: plot.Figure{
					Columns: 1,
					Panels:  []plot.Panel{{Lines: []plot.Line{{Name: "x", X: []float64{1}, Y: []float64{1}}}}},
				},
			},
		},
		Bars: []Bar{{Name: "first", Got: 2, Want: 1}},
	}
	r.Numbers[0].add("x,y", 0.25)
	dir := filepath.Join(t.TempDir(), "out")
	var text strings.Builder
	if err := r.Write(&text, dir); err != nil {
		t.Fatal(err)
	}
	want := "Toy\n\n| set   | ℓ1 |\n| ----- | -- |\n| vowel | 1  |\n\nA note.\n\nPASS   first: 2, bar ≥ 1\n"
	if text.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", text.String(), want)
	}
	for name, content := range map[string]string{"toy.md": want, "toy.csv": "set,ℓ1\nvowel,1\n",
		"toy-n.csv": "a,b\n\"x,y\",0.25\n"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != content {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	for _, name := range []string{"toy-f.svg", "toy-f.png"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	r.Bars = append(r.Bars, Bar{Name: "second", Got: 2, AtMost: true, Want: 1.5})
	text.Reset()
	if err := r.Write(&text, dir); !errors.Is(err, ErrBelow) || !strings.Contains(err.Error(), "1 of 2") {
		t.Errorf("error %v, want ErrBelow about 1 of 2", err)
	}
	if !strings.HasSuffix(text.String(), "below  second: 2, bar ≤ 1.5\n") {
		t.Errorf("printed\n%s", text.String())
	}
}

func TestCells(t *testing.T) {
	var c cells
	c.add(90, 10)
	if got := c.String(); got != "90.00 (10)" {
		t.Errorf("one split: %s", got)
	}
	c.add(92, 13)
	if got := c.String(); got != "91.00 ± 1.41 (12)" {
		t.Errorf("two splits: %s", got)
	}
	if got := (&cells{accuracy: []float64{60, 62}, units: []float64{0, 0}}).String(); got != "61.00 ± 1.41" {
		t.Errorf("linear: %s", got)
	}
	k := cell{paper: 85.22, paperUnits: 15, mean: 92.3, sd: 3.9}
	if k.inPaper() != "85.22 (15)" || k.reference() != "92.30 ± 3.90" || (cell{}).inPaper() != "-" ||
		(cell{}).reference() != "-" {
		t.Errorf("known figures: %s, %s", k.inPaper(), k.reference())
	}
}

// TestBest: the smallest of the models with the highest validation accuracy, among those that are small enough.
func TestBest(t *testing.T) {
	points := []point{
		{k: 0, valid: 10},
		{k: 2, valid: 80, lambda: 1},
		{k: 5, valid: 90, lambda: 1},
		{k: 4, valid: 90, lambda: 2},
		{k: 6, valid: 90},
		{k: 9, valid: 95},
	}
	for k, want := range map[int]int{0: 0, 1: 0, 3: 2, 8: 4, 9: 9} {
		if got, ok := best(points, k); !ok || got.k != want {
			t.Errorf("k ≤ %d: chose %d, want %d", k, got.k, want)
		}
	}
	if _, ok := best(nil, 3); ok {
		t.Error("chose from no points")
	}
}
