package experiment

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/refitd/refitd/daemon/plot"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/coordinate"
)

// descentWay is a line of figures 1 and 2 of the 2016 paper.
type descentWay struct {
	name   string
	kernel solver.Kernel
	d      coordinate.Descent
}

// curve is the objective of a descent after each sweep.
type curve struct{ seconds, objective []float64 }

func (c *curve) last() float64 { return c.objective[len(c.objective)-1] }

// descend fits p and returns the objective after each sweep.
func (o *Options) descend(
	ctx context.Context,
	p *solver.Problem,
	way *descentWay,
	warm *solver.Warm,
	s solver.Settings,
) (c curve, err error) {
	s.Kernel, s.Now = way.kernel, o.Now
	s.OnStep = func(step solver.Step, _ *solver.Model) bool {
		c.seconds, c.objective = append(c.seconds, step.Seconds), append(c.objective, step.Objective)
		return false
	}
	_, err = way.d.Fit(ctx, p, warm, s)
	return c, err
}

// Weights2016 repeats figure 1 (a) of Blondel et al. 2016: the objective of A² on diabetes, β = 10, k = 4, with fitted
// weights, weights of 1 and signs, from three starts, over that of the worst. Of H² the direct objective has no
// coordinate descent.
func Weights2016(ctx context.Context, o Options) (*Report, error) {
	const beta, basis, starts = 10, 4, 3
	set, err := o.readRegression("diabetes")
	if err != nil {
		return nil, err
	}
	p := set.problem(append(append([]int(nil), set.train...), set.valid...), 1)
	main := Table{
		Title:  "2016, figure 1 (a): objective of A² on diabetes, β = 10, k = 4, by the weights of basis vectors",
		Header: []string{"weights", "start 0", "start 1", "start 2"},
	}
	panel := plot.Panel{Title: "diabetes", XLabel: "sweeps", YLabel: "objective over the worst start's"}
	worst := 0.0
	var all [][]curve
	ways := []descentWay{{"fitted", solver.ANOVA, coordinate.Descent{Weights: coordinate.Fitted}},
		{
			"ones",
			solver.ANOVA,
			coordinate.Descent{Weights: coordinate.Ones},
		}, {"signs", solver.ANOVA, coordinate.Descent{}}}
	for _, way := range ways {
		row := []string{way.name}
		var curves []curve
		for start := range starts {
			s := solver.DefaultSettings()
			s.Lambda, s.MaxBasis, s.LinearRidge, s.BiasRidge, s.Tolerance, s.MaxIterations, s.Seed = beta, basis, 0, 0, 1e-8,
				200, uint64(start)
			c, err := o.descend(ctx, p, &way, nil, s)
			if err != nil {
				return nil, err
			}
			worst, row, curves = max(worst, c.objective[1]), append(
				row,
				fmt.Sprintf("%.3f", c.last()),
			), append(curves, c)
		}
		main.Rows, all = append(main.Rows, row), append(all, curves)
	}
	for i, way := range ways {
		for start, c := range all[i] {
			line := plot.Line{Name: fmt.Sprintf("%s, start %d", way.name, start), Bare: true, Dashed: start > 0}
			for sweep, objective := range c.objective[1:] {
				line.X, line.Y = append(line.X, float64(sweep+1)), append(line.Y, objective/worst)
			}
			panel.Lines = append(panel.Lines, line)
		}
	}
	return &Report{
		Name:    "2016-figure1",
		Tables:  []Table{main},
		Figures: []Figure{{Figure: plot.Figure{Columns: 1, Panels: []plot.Panel{panel}}}},
	}, nil
}

// lifting is a set of figure 2 of the 2016 paper, which has E2006-tfidf.
type lifting struct {
	name  string
	beta  float64
	basis int
	read  func(o *Options) (*solver.Problem, error)
}

var liftings = []lifting{
	{"cpusmall", 1, 20, func(o *Options) (*solver.Problem, error) {
		set, err := o.readRegression("cpusmall")
		if err != nil {
			return nil, err
		}
		return set.problem(set.train, 1), nil
	}},
	{"ML-100k", 8, 20, func(o *Options) (*solver.Problem, error) {
		set, err := readRatings(o.file(ratingBenchmarks[0].file...))
		if err != nil {
			return nil, err
		}
		return set.problem(split(len(set.level), 0).train, false), nil
	}},
}

// Lifting2016 repeats figure 2 of Blondel et al. 2016: the objective of lifted and direct coordinate descent against
// seconds, from one model, and when each comes within 1 % of the lower end of both. k = 2r = 20.
func Lifting2016(ctx context.Context, o Options) (*Report, error) {
	main := Table{Title: "2016, figure 2: lifted and direct objective from one start, k = 20",
		Header: []string{"set", "way", "objective", "sweeps", "seconds", "seconds to 1 %"}}
	numbers := Table{Name: "curves", Header: []string{"set", "way", "sweep", "seconds", "objective"}}
	ways := []descentWay{
		{"A² direct", solver.ANOVA, coordinate.Descent{}},
		{"A² lifted", solver.ANOVA, coordinate.Descent{Objective: coordinate.Lifted}},
		{"H² lifted", solver.Homogeneous, coordinate.Descent{}},
	}
	var figure Figure
	sets := liftings
	if o.Quick {
		sets = sets[:1]
	}
	for _, set := range sets {
		p, err := set.read(&o)
		if err != nil {
			return nil, err
		}
		s := solver.DefaultSettings()
		s.Lambda, s.MaxBasis, s.Tolerance, s.MaxIterations = set.beta, set.basis, 1e-5, 100
		if o.Quick {
			s.MaxIterations = 12
		}
		panel := plot.Panel{Title: set.name, XLabel: "time (s)", YLabel: "objective over the start's"}
		curves := make([]curve, len(ways))
		for i := range ways {
			start := &solver.Warm{Model: randomModel(ways[i].kernel, p.X.NumColumns, set.basis)}
			if curves[i], err = o.descend(ctx, p, &ways[i], start, s); err != nil {
				return nil, err
			}
		}
		for i, way := range ways {
			c := &curves[i]
			bar := 1.01 * c.last()
			if way.kernel == solver.ANOVA {
				bar = 1.01 * min(curves[0].last(), curves[1].last())
			}
			reached := "-"
			line := plot.Line{Name: way.name, Bare: true}
			for sweep, objective := range c.objective {
				numbers.add(set.name, way.name, sweep, c.seconds[sweep], objective)
				line.X, line.Y = append(line.X, c.seconds[sweep]), append(line.Y, objective/c.objective[0])
				if reached == "-" && objective <= bar {
					reached = fmt.Sprintf("%.3f", c.seconds[sweep])
				}
			}
			panel.Lines = append(panel.Lines, line)
			n := len(c.objective) - 1
			main.Rows = append(
				main.Rows,
				[]string{
					set.name,
					way.name,
					fmt.Sprintf("%.2f", c.last()),
					fmt.Sprint(n),
					fmt.Sprintf("%.3f", c.seconds[n]),
					reached,
				},
			)
		}
		figure.Columns++
		figure.Panels = append(figure.Panels, panel)
	}
	return &Report{
		Name:    "2016-figure2",
		Tables:  []Table{main},
		Numbers: []Table{numbers},
		Figures: []Figure{figure},
	}, nil
}

// randomModel is a start for several ways: basis vectors of normal numbers of variance 0.01 with weights of 1 and −1
// in turn.
func randomModel(kernel solver.Kernel, d, k int) *solver.Model {
	rng := rand.New(rand.NewPCG(1, 2016))
	m := solver.NewModel(kernel, d, 1, true)
	m.NumBasis, m.Basis, m.Weights = k, make([]float64, d*k), make([]float64, k)
	for i := range m.Basis {
		m.Basis[i] = 0.1 * rng.NormFloat64()
	}
	for s := range m.Weights {
		m.Weights[s] = 1 - 2*float64(s%2)
	}
	return m
}
