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
	table := NewTable(&out, 0)
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
	first := &report.Tick{
		ElapsedSeconds:  1,
		Events:          1998,
		EventsPerSecond: 1998.4,
		Lag:             102,
		Progressive:     losses(1.0312, 1.0455, nan, nan),
	}
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
	table := NewTable(&out, 0)
	for n := range 2*headerEvery + 1 {
		if err := table.Tick(&report.Tick{ElapsedSeconds: report.Number(n)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(out.String(), "global_mean"); n != 3 {
		t.Errorf("the head is written %d times over %d lines, want 3", n, 2*headerEvery+1)
	}
	lines := strings.Split(out.String(), "\n")
	for _, l := range lines {
		if strings.HasSuffix(l, " ") {
			t.Errorf("line %q ends in blanks", l)
		}
	}
}

// On a terminal that cannot be redrawn no line is longer than it is wide; what it has room for last are the losses of
// what is published and live.
func TestTableFitsTheTerminal(t *testing.T) {
	version := int64(1_234_567)
	for _, width := range []int{80, 60, 40} {
		var out strings.Builder
		table := NewTable(&out, width)
		tick := &report.Tick{
			ElapsedSeconds:    9999,
			Events:            999_999_999,
			EventsPerSecond:   9_999_999,
			Lag:               9_999_999,
			Version:           &version,
			Form:              "variational",
			SinceRefitSeconds: report.Some(99.9),
		}
		if err := table.Tick(tick); err != nil {
			t.Fatal(err)
		}
		if err := table.Note(time.Second, strings.Repeat("word ", 40)); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(out.String(), "\n") {
			if len(line) > width {
				t.Errorf("%d characters on %d columns: %s", len(line), width, line)
			}
		}
		for head, isThere := range map[string]bool{"published": true, "live": true, "version": true, "lag": width >= 60,
			"sgd_bias": width >= 80, "refit": false} {
			if strings.Contains(out.String(), head) != isThere {
				t.Errorf("%d columns: %q is there: %v", width, head, !isThere)
			}
		}
		if strings.Contains(out.String(), "\x1b") {
			t.Error("escape codes")
		}
	}
}
