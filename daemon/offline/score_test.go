package offline

import (
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/report"
)

// TestScoreText: people see how probable a prediction is: of the positive class, the likeliest level, or the classes
// that were predicted.
func TestScoreText(t *testing.T) {
	for text, s := range map[string]report.Score{
		"4.2  p(5) 0.489  (unseen user=9)\n": {Prediction: report.Number(4.2), Likely: []report.Likely{{Name: "5",
			Probability: 0.489}}, Unseen: []string{"user=9"}},
		"DOWN  p(DOWN) 0.700\n": {Prediction: "DOWN", Likely: []report.Likely{{Name: "DOWN", Probability: 0.7}}},
		"3.25\n":                {Prediction: report.Number(3.25)},
	} {
		var out strings.Builder
		if err := s.WriteText(&out); err != nil || out.String() != text {
			t.Errorf("%+v: %q, want %q", s, out.String(), text)
		}
	}
}
