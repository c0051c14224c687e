package quickstart

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	var out strings.Builder
	table := NewTable(&out, "rmse")
	nan := math.NaN()
	first := Tick{
		Elapsed: time.Second, Events: 1998, EventsPerSecond: 1998.4, Lag: 102, Gap: nan, SinceRefit: -1,
		Window: WindowLosses{Published: nan, Live: 1.0312, SGDBias: 1.0455, ItemMean: nan, GlobalMean: nan},
	}
	later := Tick{
		Elapsed: 59*time.Second + 600*time.Millisecond, Events: 1_119_998, EventsPerSecond: 12_000.4, Lag: 0, Version: 12, Gap: 0.0123456,
		GapKind: "estimated", SinceRefit: 2340 * time.Millisecond,
		Window: WindowLosses{Published: 0.71, Live: 0.7, SGDBias: 0.9501, ItemMean: 1.01, GlobalMean: math.Inf(1)},
	}
	for _, err := range []error{table.Tick(first), table.Note(2*time.Second, "version 1 promoted"), table.Tick(later)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := `
                                                                      rmse over the last window, each event scored before it is learned
 time     events     ev/s      lag  version            gap     refit  published     live  sgd_bias  item_mean  global_mean
   1s       1998     1998      102        -              -         -          -   1.0312    1.0455          -            -
   2s  > version 1 promoted
  60s    1119998    12000        0       12     0.0123 est  2.3s ago     0.7100   0.7000    0.9501     1.0100            -
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestTableRepeatsHead(t *testing.T) {
	var out strings.Builder
	table := NewTable(&out, "rmse")
	for n := range 2*headerEvery + 1 {
		if err := table.Tick(Tick{Elapsed: time.Duration(n) * time.Second}); err != nil {
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
