package offlinetest

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

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

// Clock never moves, so that nothing but the input can decide the output.
func Clock() time.Time { return time.Unix(1_700_000_000, 0) }

// Line is one JSON line of a verb.
type Line = map[string]any

// Collect runs a verb and returns what it printed, by lines.
func Collect(t *testing.T, verb func(out *report.Emitter) error) ([]Line, error) {
	t.Helper()
	var b bytes.Buffer
	err := verb(report.NewEmitter(&b, true))
	var lines []Line
	for text := range strings.Lines(b.String()) {
		var l Line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		lines = append(lines, l)
	}
	return lines, err
}

// Get follows a path of keys; a missing one is nil.
func Get(l Line, path string) any {
	var v any = l
	for key := range strings.SplitSeq(path, ".") {
		object, _ := v.(Line)
		v = object[key]
	}
	return v
}

// Number is get for a number that must be there.
func Number(t *testing.T, l Line, path string) float64 {
	t.Helper()
	v, ok := Get(l, path).(float64)
	if !ok {
		t.Fatalf("%s is %v in %v", path, Get(l, path), l)
	}
	return v
}

func Last(lines []Line) Line { return lines[len(lines)-1] }

// OfType returns the lines of one type.
func OfType(lines []Line, kind string) (out []Line) {
	for _, l := range lines {
		if l["type"] == kind {
			out = append(out, l)
		}
	}
	return out
}

// WantExit fails unless err has the exit code and its text holds every one of the words.
func WantExit(t *testing.T, err error, code int, words ...string) {
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

func WriteFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Ratings returns MovieLens lines of a world with user and item biases and one taste, a line a second, in random order
// of time.
func Ratings(n int, seed uint64) []string {
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
func RatingLines(n int, seed uint64, label func(a, b float64) string) string {
	rng := rand.New(rand.NewPCG(seed, 8))
	var b strings.Builder
	for range n {
		x, y := 2*rng.Float64()-1, 2*rng.Float64()-1
		fmt.Fprintf(&b, "%s 1:%.4f 2:%.4f 4:%.4f\n", label(x, y), x, y, rng.Float64())
	}
	return b.String()
}

// Configured returns a valid model of ratings for backtests and states.
func Configured(t *testing.T) *config.Model {
	t.Helper()
	seed := uint64(3)
	m := config.DefaultModel()
	m.Name, m.Input.Topics = "toy", []string{"toy"}
	m.Schema = config.Schema{
		Task:        "ordinal",
		Label:       "rating",
		Levels:      5,
		Time:        "ts",
		TimeUnit:    "ms",
		Categorical: []string{"user", "item"},
	}
	m.Sample.Seed, m.Sample.Size, m.Train.EveryEvents, m.Train.MaxBasis = &seed, 1000, 400, 3
	m.Resolve()
	if problems := m.Validate(); len(problems) > 0 {
		t.Fatal(problems)
	}
	return &m
}
