package fit

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// TestWideSparse: a LIBSVM file of a few lines that names column 100,000,000 is refused before anything is made
// for each column.
func TestWideSparse(t *testing.T) {
	for rows, column := range map[int]int{1: 1_000_001, 2: 50_000_000, 40: 100_000_000, 100: 600_000} {
		text := strings.Repeat("1 1:0.5\n", rows-1) + fmt.Sprintf("2 1:1 %d:1\n", column)
		o := Options{
			Model: &config.Model{Schema: config.Schema{Task: "regression", Label: "label"}},
			Data: offlinetest.WriteFile(t,
				"x.libsvm", text),
			Format: dataset.LIBSVM,
		}
		var err error
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, lineErr := offlinetest.Collect(t, func(out *report.Emitter) error {
			_, err = ReadParts(&o, out)
			return nil
		})
		runtime.ReadMemStats(&after)
		want := fmt.Sprintf(
			"has %d rows of %d numeric columns: the limit is 1000000 columns, and 50000000 numbers in all", rows,
			column)
		if bytes := after.TotalAlloc - before.TotalAlloc; lineErr != nil || err == nil || !strings.Contains(err.Error(),
			want) || bytes > 8<<20 {
			t.Errorf("%d rows: %v, %v, %d bytes are allocated", rows, err, lineErr, bytes)
		}
	}
}
