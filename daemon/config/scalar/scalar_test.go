package scalar

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "65536": 65536, "64KiB": 64 << 10, "1.5MiB": 3 << 19, "2 GiB": 2 << 30, "1TiB": 1 << 40, "5kB": 5000,
		"5MB": 5e6, "7B": 7,
	} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%s: %d, %v; want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "1.5", "-1MiB", "9999999TiB", "1e30GiB", "NaNMiB", "InfMiB", "1mib",
		"KiB"} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken as %d", text, s)
		}
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": 0, "0s": 0, "500ms": 500 * time.Millisecond,
		"1h30m": 90 * time.Minute, "7d": 168 * time.Hour,
		"0.5d": 12 * time.Hour} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || d.Std() != want {
			t.Errorf("%s: %v, %v; want %v", text, d, err, want)
		}
	}
	for _, text := range []string{"", "5", "s", "d", "1e9d", "NaNd", "5 s", "five"} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken as %v", text, d)
		}
	}
}

// TestValuesRoundTrip checks that what is printed is read back as the same value.
func TestValuesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := Size(rapid.Int64Min(0).Draw(t, "size"))
		text, _ := size.MarshalText()
		var s Size
		if err := s.UnmarshalText(text); err != nil || s != size {
			t.Errorf("size %d as %s: %d, %v", size, text, s, err)
		}
		duration := Duration(rapid.Int64Min(0).Draw(t, "duration"))
		text, _ = duration.MarshalText()
		var d Duration
		if err := d.UnmarshalText(text); err != nil || d != duration {
			t.Errorf("duration %d as %s: %d, %v", duration, text, d, err)
		}
		strength := rapid.Float64Range(0, 1e12).Draw(t, "strength")
		text, _ = Lambda(strength).MarshalText()
		var l Lambda
		if err := l.UnmarshalText(text); err != nil || float64(l) != strength {
			t.Errorf("lambda %g as %s: %g, %v", strength, text, float64(l), err)
		}
		text, _ = Linear(strength).MarshalText()
		var r Linear
		if err := r.UnmarshalText(text); err != nil || float64(r) != strength {
			t.Errorf("linear %g as %s: %g, %v", strength, text, float64(r), err)
		}
		vectors := rapid.IntRange(0, 1000).Draw(t, "vectors")
		text, _ = Vectors(vectors).MarshalText()
		var n Vectors
		if err := n.UnmarshalText(text); err != nil || int(n) != vectors {
			t.Errorf("%d vectors as %s: %d, %v", vectors, text, n, err)
		}
	})
	for _, bad := range []string{"", "-1", "0", "Inf", "NaN", "ridge:0", "ridge:x", "ridge", "Auto"} {
		var l Lambda
		var r Linear
		var n Vectors
		if l.UnmarshalText([]byte(bad)) == nil || r.UnmarshalText([]byte(bad)) == nil ||
			n.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q is taken as lambda %v, linear %v or %d vectors", bad, l, r, n)
		}
	}
}

// TestCatchUp: auto, learn_all and durations, of which 0 is none.
func TestCatchUp(t *testing.T) {
	for text, want := range map[string]CatchUp{"auto": AutoCatchUp, "learn_all": 0, "1m": CatchUp(time.Minute)} {
		var c CatchUp = 5
		if err := c.UnmarshalText([]byte(text)); err != nil || c != want {
			t.Errorf("%s: %v, %v, want %v", text, c, err, want)
		}
		var again CatchUp
		if err := again.UnmarshalText([]byte(c.String())); err != nil || again != c {
			t.Errorf("%s is written %s", text, c)
		}
	}
	for _, text := range []string{"0s", "-1s", "all", ""} {
		var c CatchUp
		if c.UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
