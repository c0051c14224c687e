package cycle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/scorer"
)

// triples are what labels of tripled depend on: user, item and hour by their numbers.
var triples = [][3]int{{0, 3, 1}, {2, 0, 4}, {4, 1, 2}}

// tripled draws events whose label is that of one of the planted triples or 0, with noise.
func tripled(seed uint64, n int) []event.Event {
	r := rand.New(rand.NewPCG(seed, 5))
	events := make([]event.Event, n)
	for i := range events {
		at := [3]int{r.IntN(5), r.IntN(5), r.IntN(5)}
		names := []string{fmt.Sprint("u", at[0]), fmt.Sprint("i", at[1]), fmt.Sprint("h", at[2])}
		e := event.Event{Weight: 1, Label: 0.2 * r.NormFloat64(), Categorical: names}
		if p := slices.Index(triples, at); p >= 0 {
			e.Label += 2 - 4*float64(p%2)
		}
		events[i] = e
	}
	return events
}

// TestTriplesOfAStream: where labels depend on three names at once, versions of degree 3 have a progressive loss that
// is a fifth or more below that of degree 2, and so has what is live, by each algorithm that has the degree and of both
// kernels; and Explain names the planted triples.
func TestTriplesOfAStream(t *testing.T) {
	tier.NotUnderRace(t)
	events := tripled(6, 4500)
	for _, algorithm := range []string{config.ConditionalGradient, "coordinate_descent"} {
		for _, kernel := range []string{format.ANOVA, format.Homogeneous} {
			t.Run(algorithm+"/"+kernel, func(t *testing.T) {
				t.Parallel()
				published, live := make(map[int]float64), make(map[int]float64)
				for _, degree := range []int{2, 3} {
					m := config.DefaultModel()
					m.Name, m.Train.Kernel, m.Train.MaxBasis = "triples", kernel, 14
					m.Schema = config.Schema{
						Task:        "regression",
						Label:       "y",
						TimeUnit:    "ms",
						Categorical: []string{"user", "item", "hour"},
					}
					c := newCycle(t, cycletest.By(&m, algorithm, degree))
					var ch *fitted.Fitted
					for round := range 3 {
						observeAll(c, events[round*1500:(round+1)*1500])
						if round < 2 {
							ch = mustRefit(t, c, sampleOf(events[:(round+1)*1500]))
							ch.Version.Version = int64(round + 1)
							c.Install(ch)
						}
					}
					p := c.Progressive()
					published[degree], live[degree] = float64(*p.All.Published.Loss), float64(*p.All.Live.Loss)
					if degree == 3 {
						namesTriples(t, ch.Contents(&m))
					}
				}
				t.Logf("progressive loss of degree 2 and 3: published %.4f and %.4f, live %.4f and %.4f", published[2],
					published[3], live[2], live[3])
				if !(published[3] < 0.8*published[2]) || !(live[3] < 0.8*live[2]) {
					t.Error("degree 3 is not a fifth below")
				}
			})
		}
	}
}

// namesTriples checks that an event with a planted triple is explained by it before all else. The homogeneous kernel
// gives a part of the label to products in which one of the names comes twice.
func namesTriples(t *testing.T, c *format.Contents) {
	t.Helper()
	version, err := scorer.NewModel(c)
	if err != nil {
		t.Fatal(err)
	}
	for p, at := range triples {
		in := snapshot.Input{
			Categorical: []string{fmt.Sprint("u", at[0]), fmt.Sprint("i", at[1]), fmt.Sprint("h", at[2])},
		}
		e, err := version.Explain(&in)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"user=" + in.Categorical[0], "item=" + in.Categorical[1], "hour=" + in.Categorical[2]}
		if first := e.Terms[0]; !slices.Equal(first.Features, want) ||
			!(first.Contribution[0]*(1-2*float64(p%2)) > 0.4) {
			t.Errorf("%v is explained by %v", want, e.Terms[:3])
		}
	}
}
