package backtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// TestBacktestWithout: a part that is left out predicts nothing, and a name that is no part is refused with all that
// are.
func TestBacktestWithout(t *testing.T) {
	path := offlinetest.WriteFile(t, "u.data", strings.Join(offlinetest.Ratings(600, 1), "\n"))
	parts := func(without ...string) (names []string, err error) {
		m := offlinetest.Configured(t)
		lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
			return Run(t.Context(), Options{Model: m, Data: path, Format: dataset.MovieLens, Order: dataset.TimeOrder,
				Without: without, Now: offlinetest.Clock}, out)
		})
		if len(m.Without) > 0 {
			t.Errorf("the model of the caller is without %v", m.Without)
		}
		if err != nil {
			return nil, err
		}
		of := offlinetest.Get(offlinetest.Last(lines), "progressive.parts").([]any)
		for _, p := range of {
			names = append(names, p.(map[string]any)["name"].(string))
		}
		return names, nil
	}
	all, err := parts()
	if err != nil || !slices.Contains(all, "stack") || !slices.Contains(all, "mean") {
		t.Fatalf("parts %v, error %v", all, err)
	}
	left, err := parts("stack", "mean")
	want := slices.DeleteFunc(all, func(p string) bool { return p == "stack" || p == "mean" })
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("without stack and mean: %v, want %v, error %v", left, want, err)
	}
	_, err = parts("stak")
	offlinetest.WantExit(t, err, report.ExitUsage, append(cycle.Parts(), "stak")...)
}
