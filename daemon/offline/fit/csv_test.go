package fit

import (
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// TestPartsOfOtherFormats: where formats are detected by the first lines of files, those of a fit may differ.
func TestPartsOfOtherFormats(t *testing.T) {
	events := offlinetest.JsonRatings(300)
	rows := []string{"user,item,rating,ts"}
	for _, l := range offlinetest.Ratings(100, 2) {
		c := strings.Split(l, "\t")
		rows = append(rows, strings.Join(c, ","))
	}
	o := Options{
		Model:    offlinetest.Configured(t),
		Data:     offlinetest.WriteFile(t, "e.jsonl", strings.Join(events, "\n")),
		Test:     offlinetest.WriteFile(t, "t.csv", strings.Join(rows, "\n")),
		Format:   dataset.JSONL,
		Split:    dataset.Fractions{Train: 0.5, Valid: 0.5},
		Lambdas:  []float64{3},
		MaxSteps: 1,
		Now:      offlinetest.Clock,
	}
	if _, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Run(t.Context(), o, out) }); err == nil {
		t.Error("a format that was said is not that of all files")
	}
	o.Detected = true
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Run(t.Context(), o, out) })
	if err != nil || offlinetest.Number(t, offlinetest.Last(lines), "test.n") != 100 {
		t.Errorf("%v, %v", lines, err)
	}
}
