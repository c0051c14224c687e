package refit_test

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/publish"
)

// TestEveryObjective trains and publishes a model of every task by every loss that there is for it, by the first
// algorithm that has it: a version is one that snapshot accepts, it predicts there what it does here, and better than
// chance.
func TestEveryObjective(t *testing.T) {
	for _, task := range event.Tasks {
		for _, loss := range config.Losses(task) {
			t.Run(string(task)+" "+loss, func(t *testing.T) {
				m := switchModel()
				m.Schema.Task, m.Train.Loss, m.Train.MaxBasis, m.Train.TopK = string(task), loss, 3, 1
				for _, m.Train.Algorithm = range config.Algorithms() {
					if _, err := m.Objective(); err == nil {
						break
					}
				}
				events := cycletest.Numbers(3, 600)
				for i := range events {
					if m.Train.Algorithm == config.FrankWolfeSVM { // whose models are linear
						events[i].Label = 0
						if events[i].Numeric[0] > 0 {
							events[i].Label = 1
						}
						m.Train.Costs = [][]float64{{0, 1}, {1, 0}}
					}
					switch ev := &events[i]; {
					case task == event.Ordinal:
						m.Schema.Levels = 3
						ev.Label = 1 + 2*ev.Label
					case task.HasClasses():
						m.Schema.Classes = []string{"0", "1"}
						ev.Classes = []string{strconv.Itoa(int(ev.Label))}
					}
				}
				ch := mustRefit(t, newCycle(t, m), sampleOf(events))
				contents := ch.Contents(m)
				contents.Meta.Created = time.Unix(1, 0)
				dir := t.TempDir()
				manifest, err := publish.NewStore(dir).Publish(t.Context(), m.Name, contents)
				if err != nil {
					t.Fatal(err)
				}
				version, err := snapshot.Open(dir, m.Name, snapshot.Selector{Version: manifest.Version})
				if err != nil {
					t.Fatal(err)
				}
				here, right := ch.Target, 0
				targets := make([]float64, here.Outputs())
				for i := range events {
					ev := &events[i]
					p, err := version.Predict(&snapshot.Input{Numeric: ev.Numeric})
					if err != nil || !here.Encode(targets, ev) {
						t.Fatal(err)
					}
					var correct bool
					if task.HasClasses() {
						correct = slices.Equal(p.Classes, ev.Classes)
						if got := here.Correct(p.Outputs, targets); got != correct {
							t.Fatalf("outputs %v: %v there, for %v; correct %t here", p.Outputs, p.Classes, ev.Classes,
								got)
						}
					} else {
						if value := here.Clip(here.Value(p.Outputs)); math.Abs(value-p.Value) > 1e-12 {
							t.Fatalf("outputs %v: %g there, %g here", p.Outputs, p.Value, value)
						}
						correct = math.Abs(p.Value-ev.Label) < 0.5*max(1, float64(m.Schema.Levels-1))
					}
					if correct {
						right++
					}
				}
				if right < len(events)*3/4 {
					t.Errorf("%d of %d predictions are right", right, len(events))
				}
			})
		}
	}
}

// TestEveryObjectiveOfNames publishes a model of names, lists and a number by every loss of every task with every
// algorithm, twice: what is kept of the live model and the first version go with the second.
func TestEveryObjectiveOfNames(t *testing.T) {
	stream := cycletest.Stream(5, tier.Size(350, 700))
	for _, task := range event.Tasks {
		for _, loss := range config.Losses(task) {
			for _, algorithm := range config.Algorithms() {
				m := cycletest.RatingsModel(func(m *config.Model) {
					s := &m.Schema
					s.Task, s.Levels, s.Multi, s.Numeric = string(task), 0, []string{"tags"}, []string{"age"}
					m.Train.Algorithm, m.Train.Loss, m.Train.MaxBasis, m.Train.TopK = algorithm, loss, 3, 1
					switch {
					case task.HasClasses():
						s.Classes = []string{"1", "2", "3", "4", "5"}
					case task == event.Ordinal:
						s.Levels = 5
					}
					m.Train.Costs = [][]float64{{0, 1, 1, 1, 1}, {1, 0, 1, 1, 1}, {1, 1, 0, 1, 1}, {1, 1, 1, 0, 1}, {1, 1, 1, 1, 0}}
				})
				if _, err := m.Objective(); err != nil {
					continue
				}
				t.Run(string(task)+" "+loss+" "+algorithm, func(t *testing.T) {
					t.Parallel()
					events := make([]event.Event, len(stream))
					for i, ev := range stream {
						ev.Multi, ev.Numeric = [][]string{{"t" + strconv.Itoa(i%3), "t4"}}, []float64{float64(i % 17)}
						switch {
						case task.HasClasses():
							ev.Classes, ev.Label = []string{strconv.Itoa(int(ev.Label))}, 0
						case task == event.Binary:
							ev.Label = math.Floor(ev.Label / 4)
						}
						events[i] = ev
					}
					c, store := newCycle(t, m), publish.NewStore(t.TempDir())
					for _, n := range []int{len(events) * 4 / 7, len(events)} {
						observeAll(c, events[:n])
						contents := mustRefit(t, c, sampleOf(events[:n])).Contents(m)
						contents.Meta.Created = time.Unix(1, 0)
						if _, err := store.Publish(t.Context(), m.Name, contents); err != nil {
							t.Fatalf("after %d events: %v", n, err)
						}
					}
				})
			}
		}
	}
}
