package choose

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
)

// TestIsLessNeedsEvidence: a difference counts if it is larger than its standard error, weighted.
func TestIsLessNeedsEvidence(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	n := 400
	a, b, weight := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range a {
		b[i], weight[i] = 1+0.3*r.NormFloat64(), 1
		a[i] = b[i] - 0.05 + 0.3*r.NormFloat64()
		if i%2 == 0 {
			weight[i] = 1e-6
			a[i] += 10 // of no weight
		}
	}
	if !task.IsLess(a, b, weight, horizonErrors) {
		t.Error("a clear gain does not count")
	}
	if task.IsLess(b, a, weight, horizonErrors) || task.IsLess(b, b, weight, horizonErrors) {
		t.Error("a loss, or nothing, counts as a gain")
	}
}

// TestHorizonsAfterAnAlarm: horizons are compared on the select rows since an alarm where these are enough, else on all
// of them.
func TestHorizonsAfterAnAlarm(t *testing.T) {
	t.Parallel()
	j := &task.Task{
		Process: task.Process{Budget: new(task.Budget)},
		Target:  &encode.Target{},
		Choices: task.Choices{
			Unbounded: true,
		},
		Model: &config.Model{},
		Criteria: task.Criteria{
			AlarmAge: math.Inf(1),
		},
		Rows: task.Rows{
			Sample:  &encode.Sample{},
			Select_: &encode.Encoded{},
		},
	}
	for i := range 400 {
		j.Rows.Sample.SelectAge = append(j.Rows.Sample.SelectAge, 20*float64(i))
	}
	all := RecentWeights(j)
	for _, test := range []struct {
		age  float64
		rows int // with a weight
	}{{math.Inf(1), 400}, {3000, 151}, {900, 400}} {
		j.Criteria.AlarmAge = test.age
		n := 0
		for i, w := range RecentWeights(j) {
			if w > 0 {
				n++
				if w != all[i] {
					t.Errorf("alarm %g events ago: row %d has weight %g, %g without an alarm", test.age, i, w, all[i])
				}
			}
		}
		if n != test.rows {
			t.Errorf("alarm %g events ago: %d rows have a weight, want %d", test.age, n, test.rows)
		}
	}
}

// TestHorizonsOfRareLabels: horizons are compared by recent select rows if these have enough of either label.
func TestHorizonsOfRareLabels(t *testing.T) {
	for _, c := range []struct {
		task event.Task
		ones int
		want bool
	}{{event.Binary, 0, false}, {event.Binary, 4, false}, {event.Binary, 5, true}, {event.Binary, 396, false},
		{event.Regression, 4, true}} {
		j := &task.Task{
			Process: task.Process{Budget: new(task.Budget)},
			Target:  &encode.Target{Objective: config.Objective{Task: c.task}},
			Rows: task.Rows{
				Select_: &encode.Encoded{Events: make([]event.Event, 400)},
			},
		}
		weight := make([]float64, 400)
		for i := range weight {
			if weight[i] = 1; i < c.ones {
				j.Rows.Select_.Events[i].Label = 1
			}
		}
		if got := halfLivesDiffer(j, weight); got != c.want {
			t.Errorf("%v, %d of 400 labels are 1: %v", c.task, c.ones, got)
		}
	}
}

// TestRowsWithin: rows are as young as asked for, at least the newest thousand, at most ten thousand spread evenly.
func TestRowsWithin(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		n, rows int
		age     float64
		oldest  float64
	}{{500, 500, 10, 499}, {5000, 1000, 10, 999}, {5000, 3001, 3000, 3000}, {40_000, horizonTrain, 20_000, 20_000},
		{40_000, horizonTrain, math.Inf(1), 39_999}} {
		j := &task.Task{
			Process: task.Process{Budget: new(task.Budget)},
			Rows: task.Rows{
				Sample: &encode.Sample{},
			}}
		for i := range test.n {
			j.Rows.Sample.TrainAge = append(j.Rows.Sample.TrainAge, float64((i*7919)%test.n)) // every age once
		}
		rows := rowsWithin(j, test.age)
		oldest := 0.0
		for i, row := range rows {
			oldest = max(oldest, j.Rows.Sample.TrainAge[row])
			if i > 0 && row <= rows[i-1] {
				t.Fatalf("rows out of order at %d", i)
			}
		}
		if len(rows) != test.rows || oldest > test.oldest || oldest < test.oldest*0.99 {
			t.Errorf("%d rows, up to age %g: %d of them, the oldest %g; want %d and %g", test.n, test.age, len(rows),
				oldest, test.rows, test.oldest)
		}
	}
}
