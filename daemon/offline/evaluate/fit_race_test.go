package evaluate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/fit/fittest"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// TestFitRaces: over 20,000 training rows the convex path is left out where the variational stage wins on a share of
// them. What is published has learned from the validation rows, what the summary says of these has not, and neither
// depends on the threads.
func TestFitRaces(t *testing.T) {
	tier.NotUnderRace(t)
	parts := dataset.Fractions{Train: 0.92, Valid: 0.04, Test: 0.04}
	text := offlinetest.Ratings(22_000, 3)
	path := offlinetest.WriteFile(t, "u.data", strings.Join(text, "\n"))
	run := func(threads int, thorough bool) (steps int, summary offlinetest.Line) {
		o := fittest.Options(t, dataset.MovieLens, "", path)
		o.Split = parts
		o.Model.Train.MaxBasis, o.Model.Train.Threads, o.Thorough, o.Store = 2, threads, thorough, t.TempDir()
		lines := fittest.Lines(t, o)
		if searched := offlinetest.Get(lines[0], "nu") != nil; searched != thorough {
			t.Errorf("thorough %t: a vector was looked for in addition to the linear model: %t", thorough, searched)
		}
		return len(lines) - 1, offlinetest.Last(lines)
	}
	steps, summary := run(1, false)
	if steps != 1 || offlinetest.Get(summary, "gap") != nil ||
		offlinetest.Get(summary, "held_out_sweeps") != offlinetest.Get(summary, "sweeps") ||
		offlinetest.Number(t, summary, "sweeps") < 1 {
		t.Errorf(
			"%d steps, summary %v: want the linear model alone, no gap, and as many sweeps over all rows as were chosen",
			steps,
			summary,
		)
	}
	if _, again := run(2, false); offlinetest.Get(again, "snapshot.payload_digest") != offlinetest.Get(summary,
		"snapshot.payload_digest") {
		t.Errorf("with two threads digest %v, with one %v", offlinetest.Get(again, "snapshot.payload_digest"),
			offlinetest.Get(summary, "snapshot.payload_digest"))
	}
	steps, thorough := run(1, true)
	if steps < 6 || offlinetest.Number(t, thorough, "objective") == 0 ||
		offlinetest.Get(thorough, "form") != "variational" ||
		offlinetest.Get(thorough, "gap") != nil {
		t.Errorf(
			"thorough: %d steps, summary %v: want those of several strengths, and no gap of the convex model that lost",
			steps, thorough)
	}
	if got, want := offlinetest.Number(t, summary, "test.rmse"), offlinetest.Number(t, thorough,
		"test.rmse"); got > 1.002*want {
		t.Errorf("test RMSE %g, thorough %g", got, want)
	}

	split := dataset.SplitRandom(len(text), parts, 1)
	slices.Sort(split.Valid)
	var valid strings.Builder
	for _, i := range split.Valid {
		fmt.Fprintln(&valid, text[i])
	}
	ref := offline.SnapshotRef{
		Versions: offline.Versions{Store: offlinetest.Get(summary, "snapshot.store").(string), Model: "toy"},
	}
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return Run(
			Options{
				Snapshot: ref,
				Data:     offlinetest.WriteFile(t, "valid.data", valid.String()),
				Format:   dataset.MovieLens,
				Now:      offlinetest.Clock,
			},
			out,
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	if chosen, learned := offlinetest.Number(t, summary, "valid.rmse"), offlinetest.Number(t, offlinetest.Last(lines),
		"metrics.rmse"); !(learned < chosen-1e-6) {
		t.Errorf("validation RMSE %g before the model learned from these rows, %g after", chosen, learned)
	}
}
