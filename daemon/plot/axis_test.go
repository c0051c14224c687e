package plot

import (
	"strings"
	"testing"
)

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		a    axis
		want string // what is written
		all  int
	}{
		{axis{min: 0, max: 3}, "0 0.5 1 1.5 2 2.5 3", 31},
		{axis{min: -25, max: 25}, "-20 -10 0 10 20", 25},
		{axis{min: 0.865, max: 0.91}, "0.87 0.88 0.89 0.9 0.91", 23},
		{axis{min: 0, max: 1e5}, "0 20000 40000 60000 80000 100000", 21},
		{axis{min: 12345678, max: 12345680}, "12345678 12345678.5 12345679 12345679.5 12345680", 21},
		{axis{min: 1e7, max: 5e7}, "1e+07 1.5e+07 2e+07 2.5e+07 3e+07 3.5e+07 4e+07 4.5e+07 5e+07", 41},
		{axis{log: true, min: 0.001, max: 1}, "0.001 0.01 0.1 1", 28},
		{axis{log: true, min: 10, max: 100}, "10 20 50 100", 10},
		{axis{log: true, min: 1e-9, max: 1e9}, "1e-09 1e-06 0.001 1 1000 1e+06 1e+09", 19},
		// between powers of ten: as a linear axis has them
		{axis{log: true, min: 0.865, max: 0.91}, "0.87 0.88 0.89 0.9 0.91", 23},
	} {
		var written []string
		ticks := c.a.ticks()
		for i, k := range ticks {
			if k.Label != "" {
				written = append(written, k.Label)
			}
			if slack := 1e-6 * (c.a.max - c.a.min); k.Value < c.a.min-slack || k.Value > c.a.max+slack ||
				i > 0 && ticks[i-1].Value >= k.Value {
				t.Errorf("%+v: tick %d at %g", c.a, i, k.Value)
			}
		}
		if got := strings.Join(written, " "); got != c.want || len(ticks) != c.all {
			t.Errorf("%+v: %s and %d in all, want %s and %d", c.a, got, len(ticks), c.want, c.all)
		}
	}
}
