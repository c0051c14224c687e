package offline

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
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

// TestBacktestConsumers: a consumer of updates scores as what the cycle takes for published, and one with the users' histories better, also on users
// that the versions do not know.
func TestBacktestConsumers(t *testing.T) {
	tier.NotUnderRace(t)
	var moved []string
	for _, line := range ratings(3000, 1) { // each user comes in one of five stretches
		f := strings.Split(line, "\t")
		second, err := strconv.Atoi(f[3])
		if err != nil {
			t.Fatal(err)
		}
		f[0] += fmt.Sprint("-", (second-1_000_000)/600)
		moved = append(moved, strings.Join(f, "\t"))
	}
	path := writeFile(t, "u.data", strings.Join(moved, "\n"))
	m := configured(t)
	m.Publish.UpdateEvery, m.Train.FoldIn.By = config.Duration(time.Second), []string{"user"}
	modes := []string{"refits", "updates", "history", "updates"}
	lines, err := collect(t, func(out *report.Emitter) error {
		return Backtest(t.Context(), BacktestOptions{Model: m, Data: path,
			Format: dataset.MovieLens, Order: dataset.TimeOrder, Consumer: modes, Now: clock}, out)
	})
	if err != nil {
		t.Fatal(err)
	}
	s := last(lines)
	consumers, _ := s["consumers"].([]any)
	if len(consumers) != 3 {
		t.Fatalf("%d consumers: %v", len(consumers), s)
	}
	rmse := func(at int, part string) float64 {
		c := consumers[at].(map[string]any)
		if c["mode"] != modes[at] || number(t, c, "all.n") != 3000-number(t, s, "progressive.no_model") || number(t, c, "last_tenth.n") != 300 {
			t.Errorf("consumer %v", c)
		}
		return number(t, c, part+".rmse")
	}
	if got, want := rmse(1, "all"), number(t, s, "progressive.all.published.rmse"); math.Abs(got-want) > 1e-9 {
		t.Errorf("a consumer of updates has RMSE %g, published is %g", got, want)
	}
	if updates, history := rmse(1, "all"), rmse(2, "all"); !(history < updates) || rmse(0, "all") == updates {
		t.Errorf("RMSE %g with histories, %g with updates, %g without", history, updates, rmse(0, "all"))
	}
	if number(t, consumers[2].(map[string]any), "folded") < 1000 {
		t.Errorf("%v: hardly any event had a history", consumers[2])
	}
	m = configured(t)
	m.Train.FoldIn.Enabled = false
	lines, err = collect(t, func(out *report.Emitter) error {
		return Backtest(t.Context(), BacktestOptions{Model: m, Data: path,
			Format: dataset.MovieLens, Order: dataset.TimeOrder, Consumer: modes[2:3], Now: clock}, out)
	})
	if err != nil {
		t.Fatal(err)
	}
	c := last(lines)["consumers"].([]any)[0].(map[string]any)
	if number(t, c, "folded") != 0 || c["no_fold_in"] != "train.fold_in.enabled is false" {
		t.Errorf("without fold-in: %v", c)
	}
}

// TestBacktestDeltas: a consumer of deltas scores as what the cycle takes for published, the sooner they come the better, and with the users' histories
// better still. A time that is none, and deltas without updates, are refused.
func TestBacktestDeltas(t *testing.T) {
	var moved []string
	for i, line := range ratings(3000, 1) { // users come for 100 events
		f := strings.Split(line, "\t")
		f[0] += fmt.Sprint("-", i/100)
		f[3] = fmt.Sprint(1_000_000 + i)
		moved = append(moved, strings.Join(f, "\t"))
	}
	path := writeFile(t, "u.data", strings.Join(moved, "\n"))
	play := func(updateEvery time.Duration, modes ...string) (map[string]any, error) {
		m := configured(t)
		m.Publish.UpdateEvery, m.Train.FoldIn.By = config.Duration(updateEvery), []string{"user"}
		lines, err := collect(t, func(out *report.Emitter) error {
			return Backtest(t.Context(), BacktestOptions{Model: m, Data: path,
				Format: dataset.MovieLens, Order: dataset.TimeOrder, Consumer: modes, Now: clock}, out)
		})
		if err != nil {
			return nil, err
		}
		return last(lines), nil
	}
	s, err := play(10*time.Second, "updates", "deltas:100ms", "deltas:500ms", "deltas:100ms+history")
	if err != nil {
		t.Fatal(err)
	}
	consumers := s["consumers"].([]any)
	rmse := func(at int) float64 { return number(t, consumers[at].(map[string]any), "all.rmse") }
	if got, want := rmse(1), number(t, s, "progressive.all.published.rmse"); got != want {
		t.Errorf("a consumer of deltas has RMSE %g, published is %g", got, want)
	}
	if !(rmse(1) < rmse(2) && rmse(2) < rmse(0) && rmse(3) < rmse(2)) || number(t, s, "deltas_published") < 100 {
		t.Errorf("RMSE %g with updates, %g and %g with deltas, %g with histories: %v", rmse(0), rmse(1), rmse(2), rmse(3), s["deltas_published"])
	}
	behind := number(t, consumers[1].(map[string]any), "last_tenth.rmse") - number(t, s, "last_tenth.live.rmse")
	if got := number(t, consumers[1].(map[string]any), "behind_live"); math.Abs(got-behind) > 1e-9 {
		t.Errorf("behind live by %g, want %g", got, behind)
	}
	for _, mode := range []string{"deltas", "deltas:", "deltas:0s", "deltas:soon+history", "all"} {
		var exit *report.ExitError
		if _, err := play(10*time.Second, mode); !errors.As(err, &exit) || exit.Code != report.ExitUsage {
			t.Errorf("%q: error %v", mode, err)
		}
	}
	if _, err := play(0, "deltas:1s"); err == nil || !strings.Contains(err.Error(), "publish.update_every") {
		t.Errorf("without updates: error %v", err)
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
	o := BacktestOptions{Model: &m, Data: writeFile(t, "toy", ratingLines(900, 1, quadrant)), Format: dataset.LIBSVM, Order: dataset.FileOrder, Now: clock}
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
