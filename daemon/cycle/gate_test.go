package cycle

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
)

// J18: where the champion cannot be read the gate stays on: another version, or the baselines, stand in its place until one is installed.
func TestGateWithoutTheChampion(t *testing.T) {
	events := stream(6, 3000)
	noise := slices.Clone(events)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range noise {
		if i%10 > 1 { // the training rows lie, the gate rows do not
			noise[i].Label = float64(1 + 4*r.IntN(2))
		}
	}
	m := ratingsModel(func(m *config.Model) { m.Train.Lambda = 1e-3 })
	standIn := refit(t, newCycle(t, m), sampleOf(events))
	standIn.Version.Version = 41
	for _, test := range []struct {
		name   string
		stands *Champion
		events []event.Event
		cause  Cause
		says   string
	}{
		{"version, as good", standIn, events, "not_worse", "version 41, in place of the champion, which cannot be read,"},
		{"version, worse", standIn, noise, "worse", "version 41, in place of the champion"},
		{"baselines, better", nil, events, "not_worse", "the mean by item, in place of the champion"},
		{"baselines, worse", nil, noise, "worse", "in place of the champion"},
	} {
		c := newCycle(t, m)
		c.CompareWith(test.stands)
		ch := refit(t, c, sampleOf(test.events))
		if ch.Cause != test.cause || !strings.Contains(ch.Version.Reason, test.says) || (ch.Version.ChampionGate != nil) != (test.stands != nil) {
			t.Errorf("%s: %s: %s", test.name, ch.Cause, ch.Version.Reason)
		}
		if ch.Version.Warm {
			t.Errorf("%s: it went on from what stands in", test.name)
		}
		if c.Install(ch); refit(t, c, sampleOf(events)).Version.ChampionGate == nil {
			t.Errorf("%s: the next one is not compared with the champion", test.name)
		}
	}
}

// J18: of classes, the baseline is a model that says nothing.
func TestGateOfClassesWithoutTheChampion(t *testing.T) {
	m := switchModel()
	m.Publish.Gate.MinRows = 20
	c, err := New(m, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	c.CompareWith(nil)
	ch := refit(t, c, sampleOf(numbers(1, 2000)))
	if ch.Cause != "not_worse" || !strings.Contains(ch.Version.Reason, "outputs that are all 0, in place of the champion") {
		t.Errorf("%s: %s", ch.Cause, ch.Version.Reason)
	}
}
