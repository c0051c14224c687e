package offline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock never moves, so that nothing but the input can decide the output.
func clock() time.Time { return time.Unix(1_700_000_000, 0) }

// line is one JSON line of a verb.
type line = map[string]any

// collect runs a verb and returns what it printed, by lines.
func collect(t *testing.T, verb func(out *report.Emitter) error) ([]line, error) {
	t.Helper()
	var b bytes.Buffer
	err := verb(report.NewEmitter(&b, true))
	var lines []line
	for text := range strings.Lines(b.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		lines = append(lines, l)
	}
	return lines, err
}

// get follows a path of keys; a missing one is nil.
func get(l line, path string) any {
	var v any = l
	for key := range strings.SplitSeq(path, ".") {
		object, _ := v.(line)
		v = object[key]
	}
	return v
}

// number is get for a number that must be there.
func number(t *testing.T, l line, path string) float64 {
	t.Helper()
	v, ok := get(l, path).(float64)
	if !ok {
		t.Fatalf("%s is %v in %v", path, get(l, path), l)
	}
	return v
}

func last(lines []line) line { return lines[len(lines)-1] }

// ofType returns the lines of one type.
func ofType(lines []line, kind string) (out []line) {
	for _, l := range lines {
		if l["type"] == kind {
			out = append(out, l)
		}
	}
	return out
}

// wantExit fails unless err has the exit code and its text holds every one of the words.
func wantExit(t *testing.T, err error, code int, words ...string) {
	t.Helper()
	if report.CodeOf(err) != code {
		t.Fatalf("exit code %d, want %d: %v", report.CodeOf(err), code, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ratings returns MovieLens lines of a world with user and item biases and one taste, a line a second, in random order of time.
func ratings(n int, seed uint64) []string {
	const users, items = 40, 30
	rng := rand.New(rand.NewPCG(seed, 7))
	draw := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	userBias, itemBias, taste, genre := draw(users), draw(items), draw(users), draw(items)
	lines := make([]string, n)
	for i, second := range rng.Perm(n) {
		u, j := rng.IntN(users), rng.IntN(items)
		v := 3 + 0.6*userBias[u] + 0.6*itemBias[j] + 0.8*taste[u]*genre[j] + 0.3*rng.NormFloat64()
		lines[i] = fmt.Sprintf("u%d\ti%d\t%d\t%d", u, j, int(min(max(math.Round(v), 1), 5)), 1_000_000+second)
	}
	return lines
}

// rows returns LIBSVM lines with two informative columns and a noise column; label turns the two into the first column.
func ratingLines(n int, seed uint64, label func(a, b float64) string) string {
	rng := rand.New(rand.NewPCG(seed, 8))
	var b strings.Builder
	for range n {
		x, y := 2*rng.Float64()-1, 2*rng.Float64()-1
		fmt.Fprintf(&b, "%s 1:%.4f 2:%.4f 4:%.4f\n", label(x, y), x, y, rng.Float64())
	}
	return b.String()
}

// fitOptions are the options of the command line without any flag.
func fitOptions(t *testing.T, format dataset.Format, task, path string) FitOptions {
	t.Helper()
	m, err := FitModel("toy", format, task, path)
	if err != nil {
		t.Fatal(err)
	}
	return FitOptions{Model: m, Data: path, Format: format, Split: dataset.Fractions{Train: 0.5, Valid: 0.25, Test: 0.25}, Seed: 1,
		Now: clock}
}

// fitLines runs a fit and returns its lines; it fails on an error.
func fitLines(t *testing.T, o FitOptions) []line {
	t.Helper()
	lines, err := collect(t, func(out *report.Emitter) error { return Fit(t.Context(), o, out) })
	if err != nil {
		t.Fatal(err)
	}
	if last(lines)["type"] != "summary" {
		t.Fatalf("last line %v", last(lines))
	}
	return lines
}

// published fits ratings, publishes the model and returns a reference to it, the summary and the lines of the file.
func published(t *testing.T) (SnapshotRef, line, []string) {
	t.Helper()
	text := ratings(1600, 1)
	o := fitOptions(t, dataset.MovieLens, "", writeFile(t, "u.data", strings.Join(text, "\n")))
	o.Store, o.Lambdas, o.Model.Train.MaxBasis = t.TempDir(), []float64{3, 10}, 4
	summary := last(fitLines(t, o))
	return SnapshotRef{Versions: Versions{Store: o.Store, Model: "toy"}}, summary, text
}

// configured returns a valid model of ratings for backtests and states.
func configured(t *testing.T) *config.Model {
	t.Helper()
	seed := uint64(3)
	m := config.DefaultModel()
	m.Name, m.Input.Topics = "toy", []string{"toy"}
	m.Schema = config.Schema{Task: "ordinal", Label: "rating", Levels: 5, Time: "ts", TimeUnit: "ms", Categorical: []string{"user", "item"}}
	m.Sample.Seed, m.Sample.Size, m.Train.EveryEvents, m.Train.MaxBasis = &seed, 1000, 400, 3
	m.Resolve()
	if problems := m.Validate(); len(problems) > 0 {
		t.Fatal(problems)
	}
	return &m
}
