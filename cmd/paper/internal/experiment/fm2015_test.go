package experiment

import (
	"strconv"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestFM2015 runs the short form: every model is in the table, convex ones with a certificate, and all curves come
// down.
func TestFM2015(t *testing.T) {
	tier.Need(t, tier.Long) // a dozen fits
	r, err := FM2015(t.Context(), quick(tier.Shared(t, "data")))
	if err != nil {
		t.Fatal(err)
	}
	rows := r.Tables[0].Rows
	if len(rows) < 5 || len(r.Tables[2].Rows) != len(convexWarm) || len(r.Bars) != 0 {
		t.Fatalf("%d and %d rows, %d bars", len(rows), len(r.Tables[2].Rows), len(r.Bars))
	}
	number := func(cell string) float64 {
		v, err := strconv.ParseFloat(cell, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for i, row := range rows {
		if number(row[4]) > 1.5 || (row[6] == "-") != (i == 2 || i == 4) {
			t.Errorf("%v", row)
		}
	}
	if linear := number(rows[3][5]); number(rows[0][5]) >= linear || number(rows[0][3]) < 1 {
		t.Errorf("%v is no better than %v", rows[0], rows[3])
	}
	if table := r.Tables[3]; len(table.Rows) != 1 || table.Rows[0][6] != syntheticModels[1] {
		t.Errorf("%v, of data that the second model has the form of", table.Rows)
	}
	for _, line := range r.Figures[0].Panels[0].Lines {
		if n := len(line.Y); n < 2 || line.Y[n-1] >= line.Y[0] {
			t.Errorf("%s: %v", line.Name, line.Y)
		}
	}
}
