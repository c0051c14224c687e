package experiment

import (
	"context"
	"fmt"
	"time"

	"github.com/refitd/refitd/solver"
)

// point is one model on a regularisation path of a multi-class set.
type point struct {
	lambda      float64
	k           int // basis vectors of the model, the units of table 2
	step        int
	objective   float64
	valid, test float64 // accuracy in percent
	seconds     float64 // of the solver since the path began, without the scoring
}

// walk runs Algorithm 1 on the training rows and scores the model after every refit (section 6.1). It ends early, with
// an error, when ctx is done.
func (s *classSet) walk(ctx context.Context, now func() time.Time, p parts, settings solver.Settings) ([]point, error) {
	var points []point
	err := follow(ctx, now, s.problem(p.train), settings, func(step solver.Step, m *solver.Model) {
		points = append(
			points,
			point{lambda: settings.Lambda, k: m.NumBasis, step: len(points), objective: step.Objective,
				valid: s.accuracy(m, p.valid), test: s.accuracy(m, p.test), seconds: step.Seconds},
		)
	})
	return points, err
}

// follow runs Algorithm 1 and calls visit with the model after every refit. The seconds of a step are those of the
// solver since the path began, without those of visit.
func follow(
	ctx context.Context,
	now func() time.Time,
	p *solver.Problem,
	s solver.Settings,
	visit func(solver.Step, *solver.Model),
) error {
	visiting := 0.0
	s.Rough, s.Now = true, now
	s.OnStep = func(step solver.Step, m *solver.Model) bool {
		began := now()
		step.Seconds -= visiting
		visit(step, m)
		visiting += now().Sub(began).Seconds()
		return false
	}
	if _, err := solver.Solve(ctx, p, nil, s); err != nil {
		return fmt.Errorf("paper: %w", err)
	}
	return ctx.Err()
}

// best returns the point of the highest validation accuracy with at most k basis vectors, the smallest model of
// several. ok is false if no point has so few.
func best(points []point, k int) (chosen point, ok bool) {
	for _, p := range points {
		if p.k > k {
			continue
		}
		if !ok || p.valid > chosen.valid || p.valid == chosen.valid && p.k < chosen.k {
			chosen, ok = p, true
		}
	}
	return chosen, ok
}

// job is one path of an experiment over multi-class sets.
type job struct {
	bench   *classBenchmark
	set     *classSet
	split   int
	penalty solver.Penalty
	refit   solver.Depth
	lambda  float64
	points  []point
}

// walkAll runs the paths of jobs side by side, each on one thread, and stores their points.
func (o *Options) walkAll(ctx context.Context, jobs []job) error {
	return o.each(ctx, len(jobs), func(ctx context.Context, i int) error {
		j := &jobs[i]
		settings := j.bench.settings(j.penalty, j.lambda, j.refit)
		settings.Workers = 1
		began := o.Now()
		points, err := j.set.walk(ctx, o.Now, split(len(j.set.class), uint32(j.split)), settings)
		if err != nil {
			return err
		}
		j.points = points
		b, _ := best(points, j.bench.basis)
		o.Log.Info(
			"path",
			"set",
			j.bench.name,
			"split",
			j.split,
			"penalty",
			j.penalty.String(),
			"refit",
			j.refit.String(),
			"lambda",
			j.lambda,
			"k",
			b.k,
			"valid",
			b.valid,
			"test",
			b.test,
			"seconds",
			o.Now().Sub(began).Seconds(),
		)
		return nil
	})
}

// jobsFor lists the paths of a set over splits, penalties, refits and its λ.
func jobsFor(b *classBenchmark, set *classSet, splits int, refits ...solver.Depth) []job {
	var jobs []job
	for split := range splits {
		for _, refit := range refits {
			for _, penalty := range penalties {
				for _, lambda := range b.lambdas {
					jobs = append(
						jobs,
						job{bench: b, set: set, split: split, penalty: penalty, refit: refit, lambda: lambda},
					)
				}
			}
		}
	}
	return jobs
}

// pointsOf collects the points of all λ of a split, penalty and refit.
func pointsOf(jobs []job, split int, penalty solver.Penalty, refit solver.Depth) []point {
	var points []point
	for i := range jobs {
		if j := &jobs[i]; j.split == split && j.penalty == penalty && j.refit == refit {
			points = append(points, j.points...)
		}
	}
	return points
}

// pathTable lists every point of the jobs.
func pathTable(jobs []job) Table {
	t := Table{
		Name: "paths",
		Header: []string{
			"set",
			"split",
			"penalty",
			"refit",
			"lambda",
			"step",
			"k",
			"objective",
			"valid_percent",
			"test_percent",
			"seconds",
		},
	}
	for i := range jobs {
		j := &jobs[i]
		for _, p := range j.points {
			t.add(
				j.bench.name,
				j.split,
				j.penalty,
				j.refit,
				p.lambda,
				p.step,
				p.k,
				p.objective,
				p.valid,
				p.test,
				p.seconds,
			)
		}
	}
	return t
}
