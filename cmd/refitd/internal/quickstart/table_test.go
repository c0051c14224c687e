package quickstart

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/report"
)

func TestTable(t *testing.T) {
	var out strings.Builder
	table := NewTable(&out)
	losses := func(live, sgd, published, item float64) (p report.Progressive) {
		of := func(v float64) *report.Metrics {
			if math.IsNaN(v) {
				return nil
			}
			return &report.Metrics{RMSE: report.Some(v)}
		}
		p.Window.Published, p.Window.Live = of(published), of(live)
		p.Baselines.SGDBias, p.Baselines.ItemMean = of(sgd), of(item)
		return p
	}
	nan, version := math.NaN(), int64(12)
	first := &report.Tick{ElapsedSeconds: 1, Events: 1998, EventsPerSecond: 1998.4, Lag: 102, Progressive: losses(1.0312, 1.0455, nan, nan)}
	later := &report.Tick{
		ElapsedSeconds: 59.6, Events: 1_119_998, EventsPerSecond: 12_000.4, Lag: 0, Version: &version, Form: "variational",
		SinceRefitSeconds: report.Some(2.34), Progressive: losses(0.7, 0.9501, 0.71, 1.01),
	}
	infinite := report.Number(math.Inf(1))
	later.Progressive.Baselines.GlobalMean = &report.Metrics{RMSE: &infinite}
	for _, err := range []error{table.Tick(first), table.Note(2*time.Second, "version 1 promoted"), table.Tick(later)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := `
                                                                    rmse over the last window, each event scored before it is learned
 time     events     ev/s      lag  version        model     refit  published     live  sgd_bias  item_mean  global_mean
   1s       1998     1998      102        -            -         -          -   1.0312    1.0455          -            -
   2s  > version 1 promoted
  60s    1119998    12000        0       12  variational  2.3s ago     0.7100   0.7000    0.9501     1.0100            -
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestTableRepeatsHead(t *testing.T) {
	var out strings.Builder
	table := NewTable(&out)
	for n := range 2*headerEvery + 1 {
		if err := table.Tick(&report.Tick{ElapsedSeconds: report.Number(n)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(out.String(), "global_mean"); n != 3 {
		t.Errorf("the head stands %d times over %d lines, want 3", n, 2*headerEvery+1)
	}
	lines := strings.Split(out.String(), "\n")
	for _, l := range lines {
		if strings.HasSuffix(l, " ") {
			t.Errorf("line %q ends in blanks", l)
		}
	}
}
