package formats

import "testing"

// TestTrueUnit: a unit that is too small is found for every pair of units, and a time that may be true is left alone.
func TestTrueUnit(t *testing.T) {
	perSecond := map[string]float64{"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}
	for _, seconds := range []float64{400_000_000, 881_250_949, 1_700_000_000, 4_000_000_000} {
		for said, of := range perSecond {
			for is, n := range perSecond {
				at := int64(seconds * n * 1000 / of) // as the decoder makes milliseconds of the number
				want := ""
				if n < of {
					want = is
				}
				if got := TrueUnit(said, at); got != want {
					t.Errorf("%.0f %s taken for %s: %q, want %q", seconds, is, said, got, want)
				}
			}
		}
	}
	for _, at := range []int64{0, 1, 1000, 86_400_000, year1980, -1} {
		if got := TrueUnit("ms", at); got != "" {
			t.Errorf("%d ms: %q", at, got)
		}
	}
}
