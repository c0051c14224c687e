package offline

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/report"
)

func TestBacktest(t *testing.T) {
	path := writeFile(t, "u.data", strings.Join(ratings(1500, 1), "\n"))
	run := func(order dataset.Order) string {
		var b bytes.Buffer
		o := BacktestOptions{Model: configured(t), Data: path, Format: dataset.MovieLens, Order: order, Seed: 1, Now: clock}
		if err := Backtest(t.Context(), o, report.NewEmitter(&b, true)); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	first := run(dataset.TimeOrder)
	if again := run(dataset.TimeOrder); again != first {
		t.Errorf("same input, other bytes:\n%s\n%s", first, again)
	}
	if shuffled := run(dataset.ShuffleOrder); shuffled == first {
		t.Error("the order of the events makes no difference")
	}
	lines, err := collect(t, func(out *report.Emitter) error {
		m := configured(t)
		m.Publish.UpdateEvery = config.Duration(time.Second)
		return Backtest(t.Context(), BacktestOptions{Model: m, Data: path, Format: dataset.MovieLens, Order: dataset.TimeOrder,
			Limit: 1000, Store: t.TempDir(), Now: clock}, out)
	})
	if err != nil {
		t.Fatal(err)
	}
	s := last(lines)
	versions, refits, updates := ofType(lines, "version"), 0.0, 0.0
	for _, v := range versions {
		if v["kind"] == "refit" {
			refits++
		} else {
			updates++
		}
	}
	if number(t, s, "events") != 1000 || refits != 2 || number(t, s, "versions_promoted")+number(t, s, "versions_kept") != refits ||
		updates < 1 || number(t, s, "updates_published") != updates || len(ofType(lines, "tick")) != 50 || len(lines) != 50+len(versions)+1 ||
		number(t, s, "progressive.no_model") != 400 || number(t, s, "last_tenth.live.n") != 100 {
		t.Errorf("%v refits and %v updates in %d lines, summary %v", refits, updates, len(lines), s)
	}
	if live, mean := number(t, s, "last_tenth.live.rmse"), number(t, s, "last_tenth.baselines.global_mean.rmse"); live >= mean {
		t.Errorf("live rmse %g, global mean %g", live, mean)
	}
}

// TestBacktestLIBSVM checks that the columns of a LIBSVM file reach the model.
func TestBacktestLIBSVM(t *testing.T) {
	m := config.DefaultModel()
	m.Name, m.Input.Topics = "toy", []string{"toy"}
	m.Schema = config.Schema{Task: "multiclass", Label: "y", Classes: []string{"9", "10"}, TimeUnit: "ms", Numeric: []string{"a", "b", "c", "d"}}
	m.Train.EveryEvents, m.Train.MaxBasis = 300, 3
	m.Resolve()
	if problems := m.Validate(); len(problems) > 0 {
		t.Fatal(problems)
	}
	o := BacktestOptions{Model: &m, Data: writeFile(t, "toy", rows(900, 1, quadrant)), Format: dataset.LIBSVM, Order: dataset.FileOrder, Now: clock}
	lines, err := collect(t, func(out *report.Emitter) error { return Backtest(t.Context(), o, out) })
	if err != nil {
		t.Fatal(err)
	}
	if got := number(t, last(lines), "last_tenth.published.accuracy"); got < 0.85 {
		t.Errorf("accuracy %g of the published model: %v", got, last(lines))
	}
}

func TestBacktestRefuses(t *testing.T) {
	path := writeFile(t, "u.data", "u1\ti1\t5\nu2\ti1\t4\n")
	m := configured(t)
	m.Schema.Time = ""
	o := BacktestOptions{Model: m, Data: path, Format: dataset.MovieLens, Order: dataset.TimeOrder, Now: clock}
	_, err := collect(t, func(out *report.Emitter) error { return Backtest(t.Context(), o, out) })
	wantExit(t, err, report.ExitUsage, "--order time")
	o.Order, o.Format = dataset.FileOrder, dataset.LIBSVM
	o.Data = writeFile(t, "toy", "3 1:1\n")
	_, err = collect(t, func(out *report.Emitter) error { return Backtest(t.Context(), o, out) })
	wantExit(t, err, report.ExitUsage, "numeric columns only")
}
