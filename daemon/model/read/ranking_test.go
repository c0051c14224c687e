package read

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/scorer"
)

// lister returns a version that lists i0, i1, ... of forty items in this order, for everybody.
func lister(t *testing.T) *snapshot.Model {
	t.Helper()
	c := &format.Contents{
		Kernel:      format.ANOVA,
		Link:        format.Logistic,
		NumFeatures: 41,
		NumOutputs:  1,
		Weights:     []float64{},
		Bias:        []float64{0},
		Schema:      snapshot.Schema{Task: format.Binary, Label: "chosen", Categorical: []string{"user", "item"}},
		Vocabulary:  [][]string{{"u0"}, nil},
		Linear:      []float64{0},
	}
	for i := range 40 {
		c.Vocabulary[1], c.Linear = append(c.Vocabulary[1], fmt.Sprintf("i%02d", i)), append(c.Linear, -float64(i))
	}
	m, err := scorer.NewModel(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRanking: the figures are of the lists that consumers would have got before the choice was known, without what
// its user had chosen; one choice is looked at, at a time, and those that come during a look are only counted as
// chosen.
func TestRanking(t *testing.T) {
	m := &config.Model{Schema: config.Schema{Task: config.Implicit, Categorical: []string{"user", "item"}}}
	m.Input.Negatives.Of, m.Train.FoldIn.By = "item", []string{"user"}
	version := lister(t)
	choice := func(user, item int) *event.Event {
		return &event.Event{Label: 1, Categorical: []string{fmt.Sprintf("u%d", user), fmt.Sprintf("i%02d", item)}}
	}
	synctest.Test(t, func(t *testing.T) {
		r := NewRanking(m)
		r.see(choice(0, 39), false) // before anything is published
		for i := range 9 {
			r.see(choice(0, i), true) // of an earlier run
		}
		var published *snapshot.Model
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.Run(ctx, func() *snapshot.Model { return published })
		synctest.Wait()
		r.see(choice(1, 0), false)
		if synctest.Wait(); r.Status() != nil {
			t.Errorf("%+v without a version", r.Status())
		}
		published = version
		for _, c := range []struct {
			user, item int
			want       judgedChoice // i00 is the most popular, i09 has nobody chosen
		}{{2, 0, judgedChoice{1, 1}}, {2, 9, judgedChoice{9, 0}}, {0, 10, judgedChoice{2, 0}}, {3, 30, judgedChoice{0, 0}}} {
			r.see(choice(c.user, c.item), false)
			r.see(choice(4, 0), false) // while the first is looked at
			time.Sleep(rankPause)
			synctest.Wait()
			if got := r.judged[len(r.judged)-1]; got != c.want {
				t.Errorf("u%d chose i%d: places %v, want %v", c.user, c.item, got, c.want)
			}
		}
		s := r.Status()
		if s == nil || s.Published.N != 4 || math.Abs(float64(*s.Published.Recall10)-0.75) > 1e-12 ||
			math.Abs(float64(*s.Popularity.Recall10)-0.25) > 1e-12 {
			t.Errorf("%+v", s)
		}
		for range rankedChoices {
			r.add(judgedChoice{})
		}
		if s = r.Status(); s.Published.N != rankedChoices || *s.Published.Recall10 != 0 {
			t.Errorf("old choices are still in %+v", s)
		}
	})
	m.Schema.Task = "binary"
	if r := NewRanking(m); r != nil || r.Status() != nil {
		t.Error("a model with labels is looked at for choices")
	}
}
