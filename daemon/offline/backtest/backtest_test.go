package backtest

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
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

func TestBacktest(t *testing.T) {
	path := offlinetest.WriteFile(t, "u.data", strings.Join(offlinetest.Ratings(1500, 1), "\n"))
	run := func(order dataset.Order) string {
		var b bytes.Buffer
		o := Options{
			Model:  offlinetest.Configured(t),
			Data:   path,
			Format: dataset.MovieLens,
			Order:  order,
			Seed:   1,
			Now:    offlinetest.Clock,
		}
		if err := Run(t.Context(), o, report.NewEmitter(&b, true)); err != nil {
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
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		m := offlinetest.Configured(t)
		m.Publish.UpdateEvery = config.Duration(time.Second)
		return Run(t.Context(), Options{Model: m, Data: path, Format: dataset.MovieLens, Order: dataset.TimeOrder,
			Limit: 1000, Store: t.TempDir(), Now: offlinetest.Clock}, out)
	})
	if err != nil {
		t.Fatal(err)
	}
	s := offlinetest.Last(lines)
	versions, refits, updates := offlinetest.OfType(lines, "version"), 0.0, 0.0
	for _, v := range versions {
		if v["kind"] == "refit" {
			refits++
		} else {
			updates++
		}
	}
	if offlinetest.Number(t, s, "events") != 1000 || refits != 2 || offlinetest.Number(t, s, "versions_promoted")+
		offlinetest.Number(t, s, "versions_kept") != refits ||
		updates < 1 || offlinetest.Number(t, s, "updates_published") != updates ||
		len(offlinetest.OfType(lines, "tick")) != 50 ||
		len(lines) != 50+len(versions)+1 ||
		offlinetest.Number(t, s, "progressive.no_model") != 400 ||
		offlinetest.Number(t, s, "last_tenth.live.n") != 100 {
		t.Errorf("%v refits and %v updates in %d lines, summary %v", refits, updates, len(lines), s)
	}
	if live, mean := offlinetest.Number(t, s, "last_tenth.live.rmse"), offlinetest.Number(t, s,
		"last_tenth.baselines.global_mean.rmse"); live >= mean {
		t.Errorf("live rmse %g, global mean %g", live, mean)
	}
}

// TestBacktestConsumers: a consumer of updates scores as what the cycle takes for published, and one with the users'
// histories better, also on users that the versions do not know.
func TestBacktestConsumers(t *testing.T) {
	tier.NotUnderRace(t)
	var moved []string
	for _, line := range offlinetest.Ratings(3000, 1) { // each user comes in one of five stretches
		f := strings.Split(line, "\t")
		second, err := strconv.Atoi(f[3])
		if err != nil {
			t.Fatal(err)
		}
		f[0] += fmt.Sprint("-", (second-1_000_000)/600)
		moved = append(moved, strings.Join(f, "\t"))
	}
	path := offlinetest.WriteFile(t, "u.data", strings.Join(moved, "\n"))
	m := offlinetest.Configured(t)
	m.Publish.UpdateEvery, m.Train.FoldIn.By = config.Duration(time.Second), []string{"user"}
	modes := []string{"refits", "updates", "history", "updates"}
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return Run(t.Context(), Options{Model: m, Data: path,
			Format: dataset.MovieLens, Order: dataset.TimeOrder, Consumer: modes, Now: offlinetest.Clock}, out)
	})
	if err != nil {
		t.Fatal(err)
	}
	s := offlinetest.Last(lines)
	consumers, _ := s["consumers"].([]any)
	if len(consumers) != 3 {
		t.Fatalf("%d consumers: %v", len(consumers), s)
	}
	rmse := func(at int, part string) float64 {
		c := consumers[at].(map[string]any)
		if c["mode"] != modes[at] ||
			offlinetest.Number(t, c, "all.n") != 3000-offlinetest.Number(t, s, "progressive.no_model") ||
			offlinetest.Number(t, c, "last_tenth.n") != 300 {
			t.Errorf("consumer %v", c)
		}
		return offlinetest.Number(t, c, part+".rmse")
	}
	if got, want := rmse(1, "all"), offlinetest.Number(t, s, "progressive.all.published.rmse"); math.Abs(
		got-want) > 1e-9 {
		t.Errorf("a consumer of updates has RMSE %g, published is %g", got, want)
	}
	if updates, history := rmse(1, "all"), rmse(2, "all"); !(history < updates) || rmse(0, "all") == updates {
		t.Errorf("RMSE %g with histories, %g with updates, %g without", history, updates, rmse(0, "all"))
	}
	if offlinetest.Number(t, consumers[2].(map[string]any), "folded") < 1000 {
		t.Errorf("%v: hardly any event had a history", consumers[2])
	}
	m = offlinetest.Configured(t)
	m.Train.FoldIn.Enabled = false
	lines, err = offlinetest.Collect(t, func(out *report.Emitter) error {
		return Run(t.Context(), Options{Model: m, Data: path,
			Format: dataset.MovieLens, Order: dataset.TimeOrder, Consumer: modes[2:3], Now: offlinetest.Clock}, out)
	})
	if err != nil {
		t.Fatal(err)
	}
	c := offlinetest.Last(lines)["consumers"].([]any)[0].(map[string]any)
	if offlinetest.Number(t, c, "folded") != 0 || c["no_fold_in"] != "train.fold_in.enabled is false" {
		t.Errorf("without fold-in: %v", c)
	}
}

// TestBacktestDeltas: a consumer of deltas scores as what the cycle takes for published, the sooner they come the
// better, and with the users' histories better still. A time that is none, and deltas without updates, are refused.
func TestBacktestDeltas(t *testing.T) {
	var moved []string
	for i, line := range offlinetest.Ratings(3000, 1) { // users come for 100 events
		f := strings.Split(line, "\t")
		f[0] += fmt.Sprint("-", i/100)
		f[3] = fmt.Sprint(1_000_000 + i)
		moved = append(moved, strings.Join(f, "\t"))
	}
	path := offlinetest.WriteFile(t, "u.data", strings.Join(moved, "\n"))
	play := func(updateEvery time.Duration, modes ...string) (map[string]any, error) {
		m := offlinetest.Configured(t)
		m.Publish.UpdateEvery, m.Train.FoldIn.By = config.Duration(updateEvery), []string{"user"}
		lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
			return Run(t.Context(), Options{Model: m, Data: path,
				Format: dataset.MovieLens, Order: dataset.TimeOrder, Consumer: modes, Now: offlinetest.Clock}, out)
		})
		if err != nil {
			return nil, err
		}
		return offlinetest.Last(lines), nil
	}
	s, err := play(10*time.Second, "updates", "deltas:100ms", "deltas:500ms", "deltas:100ms+history")
	if err != nil {
		t.Fatal(err)
	}
	consumers := s["consumers"].([]any)
	rmse := func(at int) float64 { return offlinetest.Number(t, consumers[at].(map[string]any), "all.rmse") }
	if got, want := rmse(1), offlinetest.Number(t, s, "progressive.all.published.rmse"); got != want {
		t.Errorf("a consumer of deltas has RMSE %g, published is %g", got, want)
	}
	if !(rmse(1) < rmse(2) && rmse(2) < rmse(0) && rmse(3) < rmse(2)) ||
		offlinetest.Number(t, s, "deltas_published") < 100 {
		t.Errorf("RMSE %g with updates, %g and %g with deltas, %g with histories: %v", rmse(0), rmse(1), rmse(2),
			rmse(3), s["deltas_published"])
	}
	behind := offlinetest.Number(t, consumers[1].(map[string]any), "last_tenth.rmse") - offlinetest.Number(t, s,
		"last_tenth.live.rmse")
	if got := offlinetest.Number(t, consumers[1].(map[string]any), "behind_live"); math.Abs(got-behind) > 1e-9 {
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
	m.Schema = config.Schema{
		Task:     "multiclass",
		Label:    "y",
		Classes:  []string{"9", "10"},
		TimeUnit: "ms",
		Numeric:  []string{"a", "b", "c", "d"},
	}
	m.Train.EveryEvents, m.Train.MaxBasis = 300, 3
	m.Resolve()
	if problems := m.Validate(); len(problems) > 0 {
		t.Fatal(problems)
	}
	o := Options{
		Model:  &m,
		Data:   offlinetest.WriteFile(t, "toy", offlinetest.RatingLines(900, 1, offlinetest.Quadrant)),
		Format: dataset.LIBSVM,
		Order:  dataset.FileOrder,
		Now:    offlinetest.Clock,
	}
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Run(t.Context(), o, out) })
	if err != nil {
		t.Fatal(err)
	}
	if got := offlinetest.Number(t, offlinetest.Last(lines), "last_tenth.published.accuracy"); got < 0.85 {
		t.Errorf("accuracy %g of the published model: %v", got, offlinetest.Last(lines))
	}
}

func TestBacktestRefuses(t *testing.T) {
	path := offlinetest.WriteFile(t, "u.data", "u1\ti1\t5\nu2\ti1\t4\n")
	m := offlinetest.Configured(t)
	m.Schema.Time = ""
	o := Options{Model: m, Data: path, Format: dataset.MovieLens, Order: dataset.TimeOrder, Now: offlinetest.Clock}
	_, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Run(t.Context(), o, out) })
	offlinetest.WantExit(t, err, report.ExitUsage, "--order time")
	o.Order, o.Format = dataset.FileOrder, dataset.LIBSVM
	o.Data = offlinetest.WriteFile(t, "toy", "3 1:1\n")
	_, err = offlinetest.Collect(t, func(out *report.Emitter) error { return Run(t.Context(), o, out) })
	offlinetest.WantExit(t, err, report.ExitUsage, "numeric columns only")
}
