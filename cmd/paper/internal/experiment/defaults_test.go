package experiment

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDefaults: on two short streams refits twice as often change what is published, a value that is refused counts on
// none, and a key that what is compared does not depend on changes nothing.
func TestDefaults(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"a", "b"} {
		var lines strings.Builder
		rng := rand.New(rand.NewPCG(uint64(i), 50))
		for range 150 {
			u, i := rng.IntN(9), rng.IntN(7)
			fmt.Fprintf(&lines, `{"user":"u%d","item":"i%d","rating":%d}`+"\n", u, i, 1+(u+i+rng.IntN(2))%5)
		}
		for name, text := range map[string]string{name + ".yaml": partsConfig, name + "-1.jsonl": lines.String()} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	now := func() time.Time { return time.Unix(1_700_000_000, 0) }
	o := Options{Data: dir, Now: now, Log: slog.New(slog.DiscardHandler)}
	changes := []change{{"train.every_events", "half"}, {"train.degree", "7"}, {"publish.keep", "3"}}
	r, err := o.defaults(t.Context(), changes)
	if err != nil {
		t.Fatal(err)
	}
	rows := r.Tables[0].Rows
	if more := rows[0]; more[3] == "+0.00 ± 0.00" || more[4] != "2" || !strings.Contains(more[6], " a") {
		t.Errorf("refits twice as often: %q", more)
	}
	if refused := rows[1]; refused[2] != "–" || refused[4] != "0" {
		t.Errorf("of degree 7: %q", refused)
	}
	if same := rows[2]; same[2] != "+0.00 ± 0.00" || same[3] != same[2] {
		t.Errorf("with fewer versions kept: %q", same)
	}
}

// TestChangedConfiguration: a key is replaced or added, whole numbers are halved and doubled.
func TestChangedConfiguration(t *testing.T) {
	from := filepath.Join(t.TempDir(), "from.yaml")
	if err := os.WriteFile(from, []byte(partsConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	to := from + ".changed"
	for c, want := range map[change]string{
		{"train.every_events", "half"}:     "every_events: 30\n",
		{"train.every_events", "twice"}:    "every_events: 120\n",
		{"train.fold_in.enabled", "false"}: "enabled: false\n",
		{"train.linear", "ridge:5"}:        "linear: ridge:5\n",
	} {
		if err := c.write(to, from); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(to); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%v: %v\n%s", c, err, text)
		}
	}
}

// TestShifts: ratios have a geometric mean with a standard error, and what is no number is left out.
func TestShifts(t *testing.T) {
	var s shifts
	s.add("a", math.Log(1.02))
	s.add("b", math.Log(0.98))
	s.add("c", math.NaN())
	if got := s.String(); got != "-0.02 ± 2.00" {
		t.Errorf("mean %s", got)
	}
	if got := s.ends(); got != "+2.0 a, -2.0 b" {
		t.Errorf("ends %s", got)
	}
}
