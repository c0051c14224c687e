package backtest

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// TestBacktestPlot: the figure is well formed, names every predictor and both decisions about refits, and lies within
// its bounds.
func TestBacktestPlot(t *testing.T) {
	m := offlinetest.Configured(t)
	m.Publish.Gate.MinRows = 10
	draw := func(m *config.Model, data string, format dataset.Format, file string) error {
		o := Options{Model: m, Data: data, Format: format, Order: dataset.FileOrder, Plot: file, Now: offlinetest.Clock}
		_, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Run(t.Context(), o, out) })
		return err
	}
	ratings := offlinetest.WriteFile(t, "u.data", strings.Join(offlinetest.Ratings(1500, 1), "\n"))
	toy := config.DefaultModel()
	toy.Name, toy.Input.Topics = "toy", []string{"toy"}
	toy.Schema = config.Schema{
		Task:     "multiclass",
		Label:    "y",
		Classes:  []string{"9", "10"},
		TimeUnit: "ms",
		Numeric:  []string{"a", "b", "c", "d"},
	}
	toy.Train.EveryEvents, toy.Train.MaxBasis = 300, 3
	toy.Resolve()
	for name, test := range map[string]struct {
		model *config.Model
		data  string
		kind  dataset.Format
		texts []string
	}{
		"numbers": {m, ratings, dataset.MovieLens, []string{"live", "published", "fold_in", "sgd_bias", "item_mean", "stack",
			"refit promoted",
			"events", "RMSE (units of the label), of each 30 events"}},
		"classes": {&toy, offlinetest.WriteFile(t, "toy", offlinetest.RatingLines(900, 1, offlinetest.Quadrant)),
			dataset.LIBSVM, []string{"live", "published", "mean", "last_label", "majority",
				"refit promoted", "mean loss, of each 18 events", "accuracy (%), of each 18 events"}},
	} {
		file := filepath.Join(t.TempDir(), "figure.svg")
		if err := draw(test.model, test.data, test.kind, file); err != nil {
			t.Fatal(err)
		}
		texts, numbers, bounds := readSVG(t, file)
		for _, want := range test.texts {
			if texts[want] == 0 {
				t.Errorf("%s: the figure does not say %q: %v", name, want, texts)
			}
		}
		if len(numbers) < 1000 {
			t.Errorf("%s: %d coordinates", name, len(numbers))
		}
		for _, v := range numbers {
			if !(v >= 0 && v <= bounds) {
				t.Errorf("%s: a coordinate is %g", name, v)
			}
		}
	}
	png := filepath.Join(t.TempDir(), "figure.png")
	if err := draw(&toy, offlinetest.WriteFile(t, "toy", offlinetest.RatingLines(900, 1, offlinetest.Quadrant)),
		dataset.LIBSVM, png); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(png); err != nil || info.Size() < 10_000 {
		t.Errorf("%v, %v", info, err)
	}
	for _, file := range []string{"figure.pdf", filepath.Join(t.TempDir(), "none", "figure.svg")} {
		offlinetest.WantExit(t, draw(m, ratings, dataset.MovieLens, file), report.ExitUsage, "--plot", file)
	}
}

// readSVG returns how often each text occurs in a figure, the coordinates of its paths, and its larger side.
func readSVG(t *testing.T, file string) (texts map[string]int, coordinates []float64, bounds float64) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	texts = make(map[string]int)
	isNumber := regexp.MustCompile(`[-+.\d]+(?:e[-+]?\d+)?|NaN|[-+]?Inf`)
	inText := false
	for d := xml.NewDecoder(f); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts, coordinates, bounds
		}
		if err != nil {
			t.Fatalf("not well formed: %v", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			inText = e.Name.Local == "text"
			for _, a := range e.Attr {
				switch a.Name.Local {
				case "viewBox":
					for _, side := range strings.Fields(a.Value) {
						v, _ := strconv.ParseFloat(side, 64)
						bounds = max(bounds, v)
					}
				case "d", "points":
					for _, n := range isNumber.FindAllString(a.Value, -1) {
						v, err := strconv.ParseFloat(n, 64)
						if err != nil {
							t.Fatalf("%q in a path", n)
						}
						coordinates = append(coordinates, v)
					}
				}
			}
		case xml.CharData:
			if s := strings.TrimSpace(string(e)); inText && s != "" {
				texts[s]++
			}
		}
	}
}

// TestFigureIsAboutThree: the first panel has what a user has and the best baseline of the second half; the others are
// faint and below, and alarms of drift are marked.
func TestFigureIsAboutThree(t *testing.T) {
	p := newBacktestPlot(true)
	for i := range 4 {
		v := float64(i)
		p.add(int64(10*(i+1)), []evaluate.PredictorLoss{{Name: "live", Loss: 1}, {Name: "published", Loss: 2},
			{Name: "early", Baseline: true, Loss: v * v}, {Name: "late", Baseline: true, Loss: 3},
			{Name: "part", Loss: 2}, {Name: "half", Baseline: true, Loss: []float64{math.NaN(), 0, 0, math.NaN()}[i]}})
	}
	p.alarmed(20)
	if best := p.best(); !slices.Equal(best, []string{"late"}) {
		t.Errorf("the best baseline is %q", best)
	}
	file := filepath.Join(t.TempDir(), "figure.svg")
	if err := p.write(file); err != nil {
		t.Fatal(err)
	}
	texts, _, _ := readSVG(t, file)
	for _, want := range []string{"live", "published", "late", "early", "part", "drift", "all other predictors"} {
		if texts[want] != 1 {
			t.Errorf("%q is %d times in the figure: %v", want, texts[want], texts)
		}
	}
	first := p.panel(p.loss, p.losses, []string{"live", "published", "late"}, false)
	if len(first.Lines) != 3 || first.Lines[2].Faint || !first.Lines[2].Dashed || len(first.Marks) != 1 {
		t.Errorf("%+v", first)
	}
}
