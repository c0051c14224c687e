package report

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestSummariesFitTerminals: no line that a reader does not copy is wider than the terminal, nothing is lost on a
// narrow one, and the command can still be pasted; without a terminal lines are as long as they are.
func TestSummariesFitTerminals(t *testing.T) {
	type metrics = []Number
	some := func(v metrics) *Metrics { return &Metrics{N: 15202, Loss: &v[0], RMSE: &v[1], MAE: &v[2]} }
	progressive := Progressive{N: 15202, WindowN: 5000, Window: Scores{Live: some(metrics{1.6099, 0.93379, 0.75352})},
		All: Scores{Published: &Metrics{}, Live: some(metrics{1.6547, 0.96724, 0.78091})}}
	state := State{Model: "ratings", SampleDigest: "sha256:" + strings.Repeat("a", 64),
		Partitions: []PartitionState{{Topic: "ratings", Partition: 3, Next: 90210}}}
	score := []string{"refitd", "score", "--store", "/tmp/refitd-quickstart-12345/snapshots", "--model", "ratings"}
	for name, line := range map[string]Line{
		"quickstart": QuickstartSummary{Versions: 12, FirstVersionSeconds: Some(7.9), Progressive: progressive,
			Store: "/tmp/q", ScoreArgv: score,
			ScoreStdin: `{"user":"u17","item":"i42"}`},
		"run": RunSummary{Models: []RunModel{{State: state, Progressive: progressive}}},
	} {
		text := func(columns int) string {
			var out bytes.Buffer
			e := NewEmitter(&out, false)
			e.Fit(func() int { return columns })
			if err := e.Emit(name, line); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		wide := text(0)
		for _, columns := range []int{40, 60, 80, 200} {
			narrow := text(columns)
			for l := range strings.Lines(narrow) {
				l = strings.TrimSuffix(l, "\n")
				words := strings.Fields(strings.TrimRight(l, ` \`))
				if utf8.RuneCountInString(l) > columns && len(words) > 1 { // one long word stays whole
					t.Errorf("%s at %d columns: %d in %q", name, columns, utf8.RuneCountInString(l), l)
				}
			}
			for _, value := range []string{"15202", "0.96724", "0.75352"} {
				if strings.Count(narrow, value) < strings.Count(wide, value) {
					t.Errorf("%s at %d columns lacks %s:\n%s", name, columns, value, narrow)
				}
			}
			pasted := strings.ReplaceAll(narrow, " \\\n   ", "")
			if name == "quickstart" &&
				!strings.HasSuffix(pasted, `  echo '{"user":"u17","item":"i42"}' | `+strings.Join(score, " ")+"\n") {
				t.Errorf("at %d columns the command is\n%s", columns, pasted)
			}
		}
		if !strings.Contains(wide, "live, all") || strings.Contains(text(40), "live, all  ") ||
			!strings.Contains(text(40), "live, all\n  n 15202, loss 1.6547") {
			t.Errorf("%s: %s\n%s", name, wide, text(40))
		}
	}
}
