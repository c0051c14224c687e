package backtest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/evaluate"
	"github.com/refitd/refitd/daemon/offline/fit"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// moods returns events of users who say what they said before, more often than not, without and with that as a field,
// and with the hour.
func moods(seed uint64, n int) (plain, given []string) {
	r := rand.New(rand.NewPCG(seed, 9))
	before := map[int]int{}
	for i := range n {
		user, label, at := r.IntN(25), 1+r.IntN(5), 1_700_000_000_000+int64(i)*600_000
		field := fmt.Sprintf(`,"hour":%d`, at/3_600_000%24)
		if last := before[user]; last > 0 {
			field += fmt.Sprintf(`,"before":%d`, last)
			if r.IntN(4) > 0 {
				label = last
			}
		}
		before[user] = label
		event := fmt.Sprintf(`{"user":"u%d","item":"i%d","rating":%d,"ts":%d`, user, r.IntN(15), label, at)
		plain, given = append(plain, event+"}"), append(given, event+field+"}")
	}
	return plain, given
}

// TestDerivedFields: backtest, fit and eval find with derived fields what they find where events bring the same as
// fields.
func TestDerivedFields(t *testing.T) {
	tier.NotUnderRace(t)
	plain, given := moods(1, 2000)
	files := map[bool]string{true: offlinetest.WriteFile(t, "plain.jsonl", strings.Join(plain, "\n")),
		false: offlinetest.WriteFile(t, "given.jsonl", strings.Join(given, "\n"))}
	model := func(derived bool) *config.Model {
		m := offlinetest.Configured(t)
		m.Schema.Categorical, m.Schema.Optional = []string{"user", "item", "before", "hour"}, []string{"before", "hour"}
		m.Schema.Time, m.Schema.TimeUnit = "ts", "ms"
		if derived {
			m.Schema.Derived = []config.Derived{
				{Name: "before", Kind: "previous_label", Of: "user"},
				{Name: "hour", Kind: "time_bin", Unit: "hour"},
			}
		}
		m.Train.FoldIn.By, m.Sample.MaxBytes = nil, 0
		m.Resolve()
		return m
	}
	metrics := map[string][2]any{}
	note := func(name string, derived bool, value any) {
		of := metrics[name]
		of[map[bool]int{false: 0, true: 1}[derived]] = value
		metrics[name] = of
	}
	for _, derived := range []bool{false, true} {
		lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
			return Run(
				t.Context(),
				Options{Model: model(derived), Data: files[derived], Format: dataset.JSONL, Order: dataset.FileOrder,
					Now: offlinetest.Clock},
				out,
			)
		})
		if err != nil {
			t.Fatal(err)
		}
		note("backtest", derived, offlinetest.Last(lines)["progressive"])
		store := t.TempDir()
		lines, err = offlinetest.Collect(t, func(out *report.Emitter) error {
			return fit.Run(t.Context(), fit.Options{Model: model(derived), Data: files[derived], Format: dataset.JSONL,
				Split: dataset.Fractions{
					Train: .5,
					Valid: .25,
					Test:  .25,
				}, Seed: 1, MaxSteps: 2, Lambdas: []float64{3}, Store: store, Now: offlinetest.Clock}, out)
		})
		if err != nil {
			t.Fatal(err)
		}
		note("fit", derived, offlinetest.Last(lines)["test"])
		lines, err = offlinetest.Collect(t, func(out *report.Emitter) error {
			return evaluate.Run(
				evaluate.Options{
					Snapshot: offline.SnapshotRef{Versions: offline.Versions{Store: store, Model: "toy"}, Version: 1},
					Data:     files[derived],
					Format:   dataset.JSONL,
					Now:      offlinetest.Clock,
				},
				out,
			)
		})
		if err != nil {
			t.Fatal(err)
		}
		note("eval", derived, offlinetest.Last(lines)["metrics"])
	}
	for name, of := range metrics {
		if of[0] == nil || !reflect.DeepEqual(of[0], of[1]) {
			t.Errorf("%s: with given fields %v, with derived ones %v", name, of[0], of[1])
		}
	}
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		m := model(false)
		m.Schema.Categorical, m.Schema.Optional, m.Train.FoldIn.By = []string{
			"user",
			"item",
		}, nil, []string{
			"user",
			"item",
		}
		return fit.Run(
			t.Context(),
			fit.Options{
				Model:    m,
				Data:     files[false],
				Format:   dataset.JSONL,
				Split:    dataset.Fractions{Train: .5, Valid: .25, Test: .25},
				Seed:     1,
				MaxSteps: 2,
				Lambdas:  []float64{3},
				Now:      offlinetest.Clock,
			},
			out,
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	with, without := offlinetest.Number(t, map[string]any{"fit": metrics["fit"][1]},
		"fit.rmse"), offlinetest.Number(t, offlinetest.Last(lines), "test.rmse")
	if with > 0.9*without {
		t.Errorf("RMSE %g with the previous label, %g without: nothing is tested", with, without)
	}
}
