package offline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
)

// TestInitCountsRows: the schedule is by the rows of the whole file, of which the first are looked at.
func TestInitCountsRows(t *testing.T) {
	var csv, jsonl strings.Builder
	csv.WriteString("user,rating\n")
	for i := range 50 {
		fmt.Fprintf(&csv, "u%d,%d\n", i%7, i%5)
		fmt.Fprintf(&jsonl, "{\"user\":\"u%d\",\"rating\":%d}\n", i%7, i%5)
	}
	for name, text := range map[string]string{"x.csv": csv.String(), "x.jsonl": jsonl.String()} {
		if p, err := dataset.ReadProfile(offlinetest.WriteFile(t, name, text), "", 20); err != nil || p.Rows != 20 ||
			p.Total != 50 {
			t.Errorf("%s: %v, %+v", name, err, p)
		}
	}
}
