package experiment

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
)

const partsConfig = `
kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: parts}
storage: {path: state}
models:
  - name: parts
    input: {topics: [parts]}
    schema: {task: ordinal, label: rating, levels: 5, categorical: [user, item]}
    sample: {seed: 1}
    train: {every_events: 60}
    publish: {store: snapshots}
`

// TestParts measures two parts on one short stream with two seeds. The mixture of levels decides the loss of live and
// no other, and the model has no AdaGrad.
func TestParts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Data: dir, Now: func() time.Time { return time.Unix(1_700_000_000, 0) }}
	if _, err := Parts(t.Context(), o); !errors.Is(err, ErrNoData) {
		t.Errorf("no streams: %v", err)
	}
	write("toy.yaml", partsConfig)
	if _, err := Parts(t.Context(), o); !errors.Is(err, ErrNoData) {
		t.Errorf("no events: %v", err)
	}
	for seed := range uint64(2) {
		var lines strings.Builder
		rng := rand.New(rand.NewPCG(seed, 49))
		for range 150 {
			u, i := rng.IntN(9), rng.IntN(7)
			fmt.Fprintf(&lines, `{"user":"u%d","item":"i%d","rating":%d}`+"\n", u, i, 1+(u+i+rng.IntN(2))%5)
		}
		write(fmt.Sprintf("toy-%d.jsonl", seed+1), lines.String())
	}
	gains, err := o.gainsOf(t.Context(), filepath.Join(dir, "toy.yaml"),
		[]string{filepath.Join(dir, "toy-1.jsonl"), filepath.Join(dir, "toy-2.jsonl")},
		[]string{mixture.PartLevels, experts.PartAdagrad})
	if err != nil {
		t.Fatal(err)
	}
	for part, of := range gains {
		if len(of) != 4 {
			t.Errorf("gains of %s: %v", part, of)
		}
		for loss, gain := range of {
			if changes := part == mixture.PartLevels && loss == "live loss"; changes == (gain == 0) {
				t.Errorf("%s gains %g of the %s", part, gain, loss)
			}
		}
	}
}

func TestWorthOf(t *testing.T) {
	got := worthOf(map[string]partRun{
		"a": {"live loss": 0.002, "live rmse": 0.001, "published loss": -0.01},
		"b": {"live loss": 0.001, "published loss": 0.003},
		"c": {"live loss": 0.0029, "published rmse": 0.0029},
	})
	want := partWorth{live: 0.0029, liveOn: "c", published: 0.003, publishedOn: "b", pays: 1, least: -0.01}
	if got != want {
		t.Errorf("worth %+v, want %+v", got, want)
	}
	if w := worthOf(nil); !math.IsInf(w.live, -1) {
		t.Errorf("of no stream: %+v", w)
	}
}
