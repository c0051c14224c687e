package cycle

import (
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/experts"
)

// TestExpertsAreThoseOfTheTable: the parts of a mixture are the fold-in, the published version, the experts and the
// baselines of the tables, in their order, and the stacks. What learns is what the table says that a model has.
func TestExpertsAreThoseOfTheTable(t *testing.T) {
	for name, test := range map[string]struct {
		model *config.Model
		later []string // experts that no event before the first refit, or the first alarm, has
		want  []string
	}{
		"ratings": {
			cycletest.RatingsModel(nil),
			[]string{experts.PartBefore},
			[]string{"fold_in", "refit", "fold_in_gaussian", "fold_in_before", "mean", "recent_mean", "sgd_bias",
				"first_mean", "second_mean", "last_label", "entity_last_label", "stack"},
		},
		"numbers": {
			switchModel(),
			nil,
			[]string{"fold_in", "refit", "adagrad", "adagrad_recent_labels", "newton_fourier", "neighbours",
				"boosted_trees", "mean", "recent_mean", "last_label", "pool"},
		},
		"clicks": {
			clicksModel(0),
			[]string{experts.PartBefore},
			[]string{"fold_in", "refit", "fold_in_before", "name_pairs", "naive_bayes", "mean", "recent_mean", "first_mean",
				"second_mean", "last_label", "entity_last_label", "pool"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCycle(t, test.model)
			var parts []string
			for i := range c.ensemble.mixture.Parts {
				parts = append(parts, c.ensemble.mixture.Parts[i].Name)
			}
			if !slices.Equal(parts, test.want) {
				t.Errorf("parts %q\nwant  %q", parts, test.want)
			}
			s := c.ensemble.setting()
			for _, k := range experts.Kinds {
				b := c.ensemble.expertOf(k.Name)
				if has := k.Applies(s) && !slices.Contains(test.later, k.Name); has != (b != nil) {
					t.Errorf("%s applies: %t, learns: %t", k.Name, has, b != nil)
				}
				if b != nil && b.Lasting != k.Lasting {
					t.Errorf("%s lasts: %t, want %t", k.Name, b.Lasting, k.Lasting)
				}
			}
		})
	}
}

// TestMemoryOfExperts: memory.parts has the sum of what the experts of a model say, and nothing of the others.
func TestMemoryOfExperts(t *testing.T) {
	for name, m := range map[string]*config.Model{
		"ratings": cycletest.RatingsModel(nil), "numbers": switchModel(), "clicks": clicksModel(0),
	} {
		s, err := experts.SettingOf(m)
		if err != nil {
			t.Fatal(err)
		}
		parts, want := make(map[string]int64), make(map[string]int64)
		for _, k := range experts.Kinds {
			if k.Applies(s) {
				want[k.Memory] += k.Footprint(s)
			}
		}
		AddExperts(parts, m)
		for _, k := range experts.Kinds {
			if parts[k.Memory] != want[k.Memory] {
				t.Errorf("%s: %s takes %d bytes, want %d", name, k.Memory, parts[k.Memory], want[k.Memory])
			}
		}
		if parts["mixture"] <= 0 {
			t.Errorf("%s: the mixture takes %d bytes", name, parts["mixture"])
		}
	}
}

// combine has the mixture combine what the experts say of an event with outputs of the fold-in.
func (e *ensemble) combine(ev *event.Event, foldIn []float64) {
	outputs := make([][]float64, len(e.experts))
	for i, x := range e.experts {
		outputs[i] = x.Predict(ev)
	}
	e.mixture.Combine(ev, foldIn, nil, e.experts, outputs)
}
