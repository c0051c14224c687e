package cycle

import (
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/refit/variational"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// TestPartsCanBeLeftOut: every part of the mixtures of all kinds of models has a name in Parts, but the fold-in, and a
// cycle without it has all other parts. Nothing of what is left out is made.
func TestPartsCanBeLeftOut(t *testing.T) {
	models := map[string]func() *config.Model{
		"ordinal": func() *config.Model {
			return cycletest.RatingsModel(func(m *config.Model) { m.Train.Refit = "variational" })
		},
		"classes of numbers": func() *config.Model { return cycletest.NumericModel(3, 4) },
		"binary names": func() *config.Model {
			return cycletest.RatingsModel(func(m *config.Model) {
				m.Schema.Task, m.Schema.Levels, m.Schema.Label = "binary", 0, "click"
			})
		},
	}
	left := Parts()
	for name, model := range models {
		full := namesOf(newCycle(t, model()))
		for _, part := range full[1:] {
			if !slices.Contains(Parts(), part) {
				t.Errorf("%s: part %s of the mixture is not in Parts", name, part)
			}
			left = slices.DeleteFunc(left, func(p string) bool { return p == part })
			m := model()
			m.Without = []string{part}
			want := slices.DeleteFunc(slices.Clone(full), func(p string) bool { return p == part })
			if part == mixture.PartRefit {
				want = full // it has a place, and never predicts
			}
			c := newCycle(t, m)
			if got := namesOf(c); !slices.Equal(got, want) {
				t.Errorf("%s without %s: parts %v", name, part, got)
			}
			if experts.ExpertOf(c.ensemble.experts, part) != nil {
				t.Errorf("%s without %s: there is an expert", name, part)
			}
		}
	}
	for _, part := range left {
		switch c := newCycle(t, cycletest.RatingsModel(func(m *config.Model) { m.Without = []string{part} })); {
		case part == mixture.PartLevels && c.ensemble.levels != nil:
			t.Error("without levels there is a mixture of them")
		case part == mixture.BlendName && c.ensemble.stacked != nil:
			t.Error("without the variant that is a sum there are weights of it")
		}
	}
}

// TestRefitIsLeftOut: the last refit is no part of the mixture then.
func TestRefitIsLeftOut(t *testing.T) {
	for _, without := range [][]string{nil, {mixture.PartRefit}} {
		c := newCycle(t, cycletest.RatingsModel(func(m *config.Model) { m.Without = without }))
		events := cycletest.Public(1, 400)
		c.Install(mustRefit(t, c, sampleOf(events[:300])))
		observeAll(c, events[300:])
		part := c.ensemble.mixture.Part(mixture.PartRefit)
		if got, want := part.Reported.N > 0, without == nil; got != want {
			t.Errorf("without %v: the refit has predicted: %v", without, got)
		}
	}
}

// TestPartIsTheRefit: the mixture has the last refit for a part, whatever update of it consumers have.
func TestPartIsTheRefit(t *testing.T) {
	c := newCycle(t, moodsModel())
	list := moods(4, 2400)
	observeAll(c, list[:800])
	ch := mustRefit(t, c, sampleOf(list[:800]))
	c.Install(ch)
	observeWithUpdates(c, list[800:2390], 300)
	served := c.publisher.published.Load()
	if !served.IsUpdate() {
		t.Fatal("consumers have the refit, not an update of it")
	}
	refit, update := scorerOf(served, &served.Refit), fitted.NewFrozenScorer(&served.FixedModel)
	p, want, other := c.NewBatchScorer(), make([]float64, 3), make([]float64, 3)
	p.Refresh()
	differ := false
	for i := range list[2390:] {
		ev, s := &list[2390+i], new(updates.Score)
		p.Score(s, ev)
		refit.Outputs(want, ev)
		update.Outputs(other, ev)
		if differ = differ || !slices.Equal(want, other); !slices.Equal(c.publisher.refitOutputs(s), want) {
			t.Fatalf("the part has outputs %v, the refit %v", c.publisher.refitOutputs(s), want)
		}
	}
	if !differ {
		t.Error("update and refit say the same")
	}
}

// TestVariantsAreLeftOut: an update has none of them, whatever the model could make.
func TestVariantsAreLeftOut(t *testing.T) {
	of := func(without []string) (made []string) {
		c := newCycle(t, cycletest.RatingsModel(func(m *config.Model) {
			m.Train.Refit, m.Train.FoldIn.By, m.Without = "variational", []string{"user"}, without
		}))
		events := cycletest.Public(1, 1500)
		c.Install(mustRefit(t, c, sampleOf(events[:300])))
		observeAll(c, events[300:])
		c.ensemble.relink()
		for f, candidate := range c.ensemble.candidates(true) {
			if candidate.Model != nil {
				made = append(made, variants[f].name)
			}
		}
		return made
	}
	all := of(nil)
	if len(all) < 2 {
		t.Fatalf("variants %q", all)
	}
	for _, name := range all[1:] {
		if got := of([]string{name}); slices.Contains(got, name) || len(got) != len(all)-1 {
			t.Errorf("without %s: variants %q", name, got)
		}
	}
}

// TestChoicesAreLeftOut: a refit makes none of them, and takes what it would have begun with.
func TestChoicesAreLeftOut(t *testing.T) {
	c := newCycle(t, cycletest.RatingsModel(func(m *config.Model) {
		m.Train.Refit = "variational"
		m.Without = []string{task.ChoiceHalfLife, task.ChoicePrecisions, task.ChoiceRestart, task.ChoiceStage,
			task.ChoiceHeldOut}
	}))
	events := cycletest.Public(1, 900)
	c.Install(mustRefit(t, c, sampleOf(events[:600])))
	ch := mustRefit(t, c, sampleOf(events))
	if ch.Horizon != 0 || ch.Precisions.Stage != variational.PrecisionsAnew || ch.Version.Sweeps == 0 ||
		ch.WithoutHoldout != nil {
		t.Errorf("horizon %d, precisions %q, %d sweeps, learned held-out rows: %v",
			ch.Horizon, ch.Precisions.Stage, ch.Version.Sweeps, ch.WithoutHoldout != nil)
	}
}

func namesOf(c *Cycle) (names []string) {
	for i := range c.ensemble.mixture.Parts {
		names = append(names, c.ensemble.mixture.Parts[i].Name)
	}
	return names
}
