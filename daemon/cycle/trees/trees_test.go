package trees

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// square is the judge of squared errors.
func square(dst, outputs, targets []float64) float64 {
	for c := range dst {
		dst[c] = targets[c] - outputs[c]
	}
	return 1
}

// filled returns a window that so many random events went through, whose label is a rule.
func filled(random *rand.Rand, size, events, outputs int) *Window {
	w := NewWindow(size, 3, 2, outputs)
	for range events {
		numeric := []float64{random.Float64(), float64(random.IntN(4)), random.NormFloat64()}
		if random.IntN(10) == 0 {
			numeric[2] = math.NaN()
		}
		names := []string{fmt.Sprint("a", random.IntN(4)), fmt.Sprint("b", random.IntN(3))}
		targets := make([]float64, outputs)
		for c := range targets {
			if numeric[0] > 0.4 == (names[0] == "a2") {
				targets[c] = 1
			}
			targets[c] += float64(c) * numeric[1] * random.Float64()
		}
		w.Add(numeric, names, targets, 1+random.Float64())
	}
	return w
}

// TestQuestionsAreBest compares each question of a tree with all questions that there are, each counted row by row.
func TestQuestionsAreBest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, m := range []int{1, 3} {
		w := filled(random, 200, 330, m)
		f := new(Fitter)
		f.Fit(w, Options{Rows: 150, Trees: 3, Depth: 3, Rate: 0.5}, square)
		for first := range stride {
			for i := range f.slopes {
				f.slopes[i] = random.NormFloat64()
				if i%(m+1) == m {
					f.slopes[i] = random.Float64()
				}
			}
			tree := f.tree(w, Options{Depth: 3, Rate: 0.5}, first)
			if len(tree.Splits) != 3 {
				t.Fatalf("%d questions", len(tree.Splits))
			}
			for d, s := range tree.Splits {
				of, most := slowBest(f, w, tree.Splits[:d], first)
				if got := slowScore(f, w, append(tree.Splits[:d:d], s), first); math.Abs(got-most) > 1e-9*most {
					t.Errorf("%d outputs, question %d: %+v scores %g, %+v scores %g", m, d, s, got, of, most)
				}
			}
		}
	}
}

// answer is whether a row answers a question by yes.
func answer(w *Window, at int, s *Split) bool {
	if s.Field >= 0 {
		return float64(w.numbers[at*w.fields+s.Field]) >= s.Edge
	}
	return w.codes[-1-s.Field][at] == s.code
}

func slowScore(f *Fitter, w *Window, splits []Split, first int) (sum float64) {
	leaves := make(map[int][]float64)
	width := w.outputs + 1
	for i := first; i < len(f.rows); i += stride {
		leaf := 0
		for d := range splits {
			if answer(w, f.rows[i], &splits[d]) {
				leaf |= 1 << d
			}
		}
		if leaves[leaf] == nil {
			leaves[leaf] = make([]float64, width)
		}
		for c := range width {
			leaves[leaf][c] += f.slopes[i*width+c]
		}
	}
	for _, of := range leaves {
		squares := 0.0
		for _, g := range of[:width-1] {
			squares += g * g
		}
		sum += squares / (of[width-1] + ridge)
	}
	return sum
}

func slowBest(f *Fitter, w *Window, splits []Split, first int) (best Split, most float64) {
	try := func(s Split) {
		if score := slowScore(f, w, append(splits[:len(splits):len(splits)], s), first); score > most {
			best, most = s, score
		}
	}
	for j, edges := range f.edges {
		for _, edge := range edges {
			try(Split{Field: j, Edge: edge})
		}
	}
	for field := range w.names {
		for code, name := range w.names[field].nameOf {
			if name != "" {
				try(Split{Field: -1 - field, code: uint8(code)})
			}
		}
	}
	return best, most
}

// TestEnsembleIsWhatWasFitted: what an ensemble predicts for the rows are the outputs that the fit ended with, and the
// rule is found. A second fit of the same rows, by a fitter that was used for others, is equal.
func TestEnsembleIsWhatWasFitted(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	w := filled(random, 500, 700, 1)
	o := Options{Rows: 400, Trees: 20, Depth: 4, Rate: 0.3}
	f := new(Fitter)
	e := f.Fit(w, o, square)
	dst, squares := make([]float64, 1), 0.0
	for i, at := range f.rows {
		numeric, codes := make([]float64, w.fields), make([]uint8, len(w.codes))
		for j := range numeric {
			numeric[j] = float64(w.numbers[at*w.fields+j])
		}
		for j := range codes {
			codes[j] = w.codes[j][at]
		}
		e.Predict(dst, numeric, codes)
		if math.Abs(dst[0]-f.outputs[i]) > 1e-9 {
			t.Fatalf("row %d: %g, the fit ended with %g", i, dst[0], f.outputs[i])
		}
		r := dst[0] - float64(w.targets[at])
		squares += r * r
	}
	if mean := squares / float64(len(f.rows)); mean > 0.04 { // of 0.24 without trees; the edge is not one of the bins
		t.Errorf("mean square %g of a rule without noise", mean)
	}
	f.Fit(filled(random, 300, 300, 1), o, square)
	if again := f.Fit(w, o, square); !reflect.DeepEqual(again, e) {
		t.Error("a second fit of the same rows is another")
	}
}

// TestWindow: the newest rows are kept, corrections change the label of the event that they say, and codes of names
// that hardly come any more are given to others unless an ensemble asks for them.
func TestWindow(t *testing.T) {
	w := NewWindow(300, 1, 1, 1)
	for i := range 400 {
		w.Add([]float64{float64(i)}, []string{fmt.Sprint(i)}, []float64{float64(i)}, 1)
	}
	if w.Len() != 300 || w.numbers[(400-1)%300] != 399 {
		t.Fatalf("%d rows", w.Len())
	}
	w.Correct(2, []string{"7"}, []float64{-1})   // another event by now
	w.Correct(300, []string{"99"}, []float64{1}) // no longer there
	w.Correct(3, []string{"396"}, []float64{-2})
	if got := w.targets[397%300]; got != 397 {
		t.Errorf("label %g after a correction of another event", got)
	}
	if got := w.targets[396%300]; got != -2 {
		t.Errorf("corrected label is %g", got)
	}
	used := &Ensemble{Trees: []Tree{{Splits: []Split{{Field: -1, code: w.names[0].codeOf["200"]}}}}}
	w.Forget(2, used, nil)
	if d := &w.names[0]; len(d.codeOf) != 1 || d.codeOf["200"] == 0 || len(d.free) != maxCodes-1 {
		t.Errorf("%d names have codes, %d are free", len(d.codeOf), len(d.free))
	}
	for at, code := range w.codes[0] {
		if code != 0 && w.numbers[at] != 200 {
			t.Errorf("row %d still has code %d", at, code)
		}
	}
}

// TestEdgesOfCloseNumbers: where numbers differ by less than a window keeps of them, they are on the side of an edge on
// which they are after rounding.
func TestEdgesOfCloseNumbers(t *testing.T) {
	w := NewWindow(4000, 1, 0, 1)
	for i := range 4000 {
		w.Add([]float64{1.7e9 + float64(i)}, nil, []float64{0}, 1)
	}
	edges, _ := w.edges(nil, 0, w.Len(), 16, nil)
	if len(edges) < 10 {
		t.Fatalf("edges %v", edges)
	}
	for _, edge := range edges {
		for i := range 4000 {
			if v := 1.7e9 + float64(i); math.Abs(v-edge) > 1e-9 && (v >= edge) != (float64(float32(v)) >= edge) {
				t.Fatalf("%.1f and what the window has of it are on two sides of %.1f", v, edge)
			}
		}
	}
}

// TestEdges: edges part values into bins of about equal size, never next to a value, and absent and infinite numbers
// do not move them.
func TestEdges(t *testing.T) {
	w := NewWindow(1000, 1, 0, 1)
	for i := range 900 {
		v := float64(i * 7 % 100)
		switch i % 9 {
		case 0:
			v = math.NaN()
		case 1:
			v = math.MaxFloat64
		}
		w.Add([]float64{v}, nil, []float64{0}, 1)
	}
	edges, _ := w.edges(nil, 0, w.Len(), 10, nil)
	if len(edges) != 9 {
		t.Fatalf("edges %v", edges)
	}
	for i, e := range edges {
		if want := float64(10*(i+1)) - 0.5; math.Abs(e-want) > 2 || e != float64(int(e))+0.5 {
			t.Errorf("edge %d is %g, want about %g", i, e, want)
		}
	}
}
