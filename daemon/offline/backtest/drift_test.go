package backtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// TestBacktestAlarmsOfDrift: a backtest of a rhythm of how hard labels are, of rare labels and of a shop's log, in
// which nothing changes, has no alarm. One of a board whose classes change places has one soon after. The plain form
// has the shop and the board: rhythms and rare labels are in daemon/cycle/drift.
func TestBacktestAlarmsOfDrift(t *testing.T) {
	tier.NotUnderRace(t)
	chance := func(r *rand.Rand, output float64) int {
		if r.Float64() < 1/(1+math.Exp(-output)) {
			return 1
		}
		return 0
	}
	taste := make([]float64, 2000)
	for r, i := rand.New(rand.NewPCG(25, 2)), 0; i < len(taste); i++ {
		taste[i] = r.NormFloat64()
	}
	const changed = 24_000
	for name, test := range map[string]struct {
		schema  config.Schema
		draw    func(r *rand.Rand, n int) string
		changes bool
	}{
		"rhythm": {config.Schema{Task: "regression", Numeric: []string{"x"}}, func(r *rand.Rand, n int) string {
			x := r.NormFloat64()
			hard := 1 + 0.8*math.Sin(2*math.Pi*(float64(n)/25_000-0.3))
			return fmt.Sprintf(`{"x":%.4f,"y":%.4f}`, x, 2*x+hard*r.NormFloat64())
		}, false},
		"rare": {config.Schema{Task: "binary", Categorical: []string{"a", "b"}}, func(r *rand.Rand, _ int) string {
			a, b := r.IntN(200), r.IntN(30)
			return fmt.Sprintf(`{"a":"a%d","b":"b%d","y":%d}`, a, b, chance(r, -6.8+0.8*taste[a]+0.8*taste[500+b]))
		}, false},
		"shop": {config.Schema{Task: "binary", Categorical: []string{"user", "item"}, Numeric: []string{"price"}}, func(
			r *rand.Rand, _ int) string {
			user, item := int(400*math.Pow(r.Float64(), 1.5)), int(100*math.Pow(r.Float64(), 1.5))
			price := math.Exp(3 + 0.8*taste[1000+item])
			bought := chance(r, -1.5+0.8*taste[user]+0.5*taste[600+item]-0.5*(math.Log(price)-3))
			return fmt.Sprintf(`{"user":"u%d","item":"i%d","price":%.2f,"y":%d}`, user, item, price, bought)
		}, false},
		"change": {config.Schema{Task: "multiclass", Classes: []string{"black", "white"}, Numeric: []string{"x", "z"}}, func(
			r *rand.Rand, n int) string {
			x, z := 3*r.Float64(), 3*r.Float64()
			white := (int(x)+int(z))%2 == 0
			if n >= changed {
				white = r.IntN(2) == 0
			}
			return fmt.Sprintf(`{"x":%.4f,"z":%.4f,"y":"%s"}`, x, z, map[bool]string{true: "white", false: "black"}[white])
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "rhythm" || name == "rare" {
				tier.Need(t, tier.Long)
			}
			m := config.DefaultModel()
			m.Name, m.Input.Topics, m.Schema = "m", []string{"m"}, test.schema
			m.Schema.Label, m.Schema.TimeUnit = "y", "ms"
			m.Train.EveryEvents, m.Train.MaxBasis, m.Train.Threads = 8000, 2, 1
			m.Sample.Size = tier.Size(5000, m.Sample.Size)
			m.Resolve()
			if problems := m.Validate(); len(problems) > 0 {
				t.Fatal(problems)
			}
			length := changed + 6000
			if !test.changes {
				length = tier.Size(length/2, length)
			}
			r, lines := rand.New(rand.NewPCG(25, 1)), make([]string, length)
			for n := range lines {
				lines[n] = test.draw(r, n)
			}
			o := Options{
				Model:  &m,
				Data:   offlinetest.WriteFile(t, "events.jsonl", strings.Join(lines, "\n")),
				Format: dataset.JSONL,
				Order:  dataset.FileOrder,
				Now:    offlinetest.Clock,
			}
			out, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Run(t.Context(), o, out) })
			if err != nil {
				t.Fatal(err)
			}
			alarms := offlinetest.Last(out)["drift_alarms"].([]any)
			if len(alarms) > 0 != test.changes {
				t.Fatalf("alarms %v", alarms)
			}
			for _, a := range alarms {
				if at := int(a.(map[string]any)["event"].(float64)); at < changed || at > changed+4000 {
					t.Errorf("alarm %v, of a change at %d", a, changed)
				}
			}
		})
	}
}
