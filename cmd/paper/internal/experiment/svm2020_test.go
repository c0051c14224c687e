package experiment

import (
	"strconv"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestSVM2020 runs the short form: every method has a curve, exact methods reach the gap, and errors fall with the
// classes looked at.
func TestSVM2020(t *testing.T) {
	tier.NotUnderRace(t)
	r, err := SVM2020(t.Context(), quick(tier.Shared(t, "data")))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Tables) != 4 || len(r.Bars) != 0 || len(r.Figures) != 1 || len(r.Figures[0].Panels) != 8 {
		t.Fatalf("%d tables, %d bars, figures %v", len(r.Tables), len(r.Bars), r.Figures)
	}
	for _, panel := range r.Figures[0].Panels {
		for _, line := range panel.Lines {
			first, last := line.Y[0], line.Y[len(line.Y)-1]
			if len(line.Y) < 2 || line.Name == "block ascent" && last > 0.5*first || panel.YLabel == "gap" && last < 0 {
				t.Errorf(
					"%s, %s: gap %v after %d iterations, from %v",
					panel.Title,
					line.Name,
					last,
					len(line.Y)-1,
					first,
				)
			}
		}
	}
	for _, row := range r.Tables[0].Rows {
		if steps, err := strconv.Atoi(row[7]); err != nil || steps < 1 {
			t.Errorf("block ascent: %v", row)
		}
	}
	for _, row := range r.Tables[1].Rows {
		cold, err := strconv.ParseFloat(row[3], 64)
		if warm, err2 := strconv.ParseFloat(row[4], 64); err != nil || err2 != nil ||
			warm >= cold && row[0] != "generated" { // which has fewer rows than weights
			t.Errorf("refits: %v", row)
		}
	}
	for _, row := range r.Tables[2].Rows {
		last := 1.0
		for _, cell := range row[2:] {
			e, err := strconv.ParseFloat(strings.Fields(cell)[0], 64)
			if err != nil || e > last || e < 0 {
				t.Fatalf("%v", row)
			}
			last = e
		}
	}
}
