package report

import (
	"math"
	"strings"
	"testing"
)

func TestOptimality(t *testing.T) {
	loss := &Metrics{N: 5, Loss: Some(0.43)}
	for _, c := range []struct {
		version Version
		want    string
	}{
		{Version{Form: "convex", GapRelative: Some(0.0771), GapKind: "certified", BasisGapRelative: Some(0.00052),
			Gate: loss},
			"objective within 7.7 % of the optimum (certified), within 0.052 % of the best with these basis vectors, " +
				"held-out loss 0.43"},
		{Version{Form: "convex", GapRelative: Some(0.0771), GapKind: "certified", K: 3, NuclearNorm: Some(12.5)},
			"objective within 7.7 % of the optimum (certified), nuclear norm 12.5 at rank 3"},
		{Version{Form: "convex", GapRelative: Some(0.0771), GapKind: "certified", GapLimit: "bound"},
			"objective within 7.7 % of the optimum (certified; its bound limits it, no better vector was found)"},
		{Version{Form: "convex", GapRelative: Some(0.0771), GapKind: "certified", GapLimit: "vectors"},
			"objective within 7.7 % of the optimum (certified; vectors that are not in the model limit it)"},
		{Version{Form: "convex", GapRelative: Some(0.0771), GapKind: "certified", GapLimit: "weights", BasisGapRelative: Some(
			0.05)},
			"objective within 7.7 % of the optimum (certified; its weights limit it), within 5 % of the best with these " +
				"basis vectors"},
		{Version{Form: "convex", GapRelative: Some(0.352), GapKind: "estimated", BasisGapRelative: Some(1e-7)},
			"objective within about 35 % of the optimum (estimated), within less than 0.01 % of the best with these basis " +
				"vectors"},
		{Version{Form: "convex", GapRelative: Some(1e-7), GapKind: "estimated"},
			"objective within less than 0.01 % of the optimum (estimated)"},
		{Version{Form: "convex", GapRelative: Some(0), GapKind: "certified", BasisGapRelative: Some(0),
			FeatureMap: "bins:16"},
			"objective of the convex part within 0 % of the optimum (certified), within 0 % of the best with these " +
				"basis vectors"},
		{Version{Form: "convex", GapRelative: Some(1), GapKind: "estimated", BasisGapRelative: Some(1)},
			"objective at an unknown distance to the optimum"},
		{Version{Form: "convex", GapRelative: Some(math.NaN()), GapKind: "estimated"},
			"objective at an unknown distance to the optimum"},
		{Version{Form: "convex"}, "distance to the optimum unknown"},
		{Version{GapRelative: Some(0.5), GapKind: "certified"}, "objective within 50 % of the optimum (certified)"},
		{Version{Form: "variational", Evidence: Some(-1234.5), Sweeps: 7, Gate: loss},
			"variational, evidence -1234.5 after 7 sweeps, held-out loss 0.43"},
		{Version{Form: "variational"}, "variational"},
		{Version{Form: "update", Gate: loss}, "an update: the refit before it with what was learned since"},
	} {
		if got := c.version.OptimalityHeldOut(); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
		if strings.Contains(c.version.Optimality(), "held-out") {
			t.Errorf("the held-out loss is in %q", c.version.Optimality())
		}
	}
}

// TestOneScale: the line of a version has one figure for how well it does on the gate rows, by its name: the RMSE of
// numbers, the loss of classes.
func TestOneScale(t *testing.T) {
	numbers := Version{
		Version:      1,
		Model:        "m",
		Kind:         "refit",
		Decision:     "promoted",
		Reason:       "gate loss 0.68682, champion 0.70000 on 40 rows",
		Rows:         1,
		Features:     2,
		Form:         "variational",
		Evidence:     Some(-10),
		Sweeps:       1,
		Gate:         &Metrics{Loss: Some(0.34341), RMSE: Some(0.82874)},
		ChampionGate: &Metrics{Loss: Some(0.35), RMSE: Some(0.83666)},
	}
	classes := numbers
	classes.Gate, classes.ChampionGate = &Metrics{Loss: Some(0.68682)}, nil
	for want, v := range map[string]Version{
		"1 row, 2 features, , variational, evidence -10 after 1 sweep, gate RMSE 0.82874 (champion RMSE " +
			"0.83666), 0.0 s": numbers,
		"1 row, 2 features, , variational, evidence -10 after 1 sweep, gate loss " +
			"0.68682, 0.0 s": classes,
	} {
		var b strings.Builder
		if err := v.WriteText(&b); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%s: want %s", b.String(), want)
		}
	}
	if text := numbers.OptimalityHeldOut(); !strings.HasSuffix(text, "after 1 sweep, held-out RMSE 0.82874") {
		t.Error(text)
	}
}

// TestCount: one thing is one, none and two are several.
func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 sweeps", 1: "1 sweep", 2: "2 sweeps"} {
		if got := Count(n, "sweep"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
