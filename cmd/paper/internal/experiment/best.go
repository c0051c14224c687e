package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/sweep"
)

// Limits of a variational refit: sweeps at most, and how many without a gain on the validation rows end it.
const (
	mostSweeps  = 40
	worseSweeps = 2
	// scatter is the standard deviation of random coordinates to start from.
	scatter = 0.1
	// averaged is the number of refits, from different starts, whose mean is one more model.
	averaged = 8
)

// Best looks for the best single model of ratings: variational refits with one output and with McRank, and full refits
// of McRank along Algorithm 1, all with k of at most 32 chosen on the validation rows; and the mean of several refits,
// which is a model as well.
func Best(ctx context.Context, o Options) (*Report, error) {
	r := &Report{Name: "best"}
	main := Table{
		Title: "Best models of ratings, λ, k and sweeps chosen on the validation rows; mean ± standard deviation " +
			"over splits",
		Header: []string{"set", "model", "k", "splits", "validation RMSE", "RMSE", "nDCG@1", "nDCG@5", "seconds"},
	}
	err := o.overRatings(func(b *ratingBenchmark, set *ratingSet) error {
		splits := o.splits(b.splits)
		lowest, chosen, chosenName := math.Inf(1), ratingSummary{}, ""
		candidates := b.candidates(o.Quick)
		o.Progress.Stage(b.name, "fits", int64(len(candidates)*splits))
		for _, model := range candidates {
			bySplit := make([][]scored, splits)
			valid := 0.0
			for at := range splits {
				p := split(len(set.level), uint32(at))
				found, err := model.fit(ctx, &o, set, p)
				if err != nil {
					return err
				}
				s := scored{
					k:       found.model.NumBasis,
					valid:   set.quality(found.model, p.valid),
					test:    set.quality(found.model, p.test),
					seconds: found.seconds,
				}
				bySplit[at] = []scored{s}
				valid += s.valid.rmse / float64(splits)
				o.Progress.Add(1)
				o.Log.Info("fitted", "set", b.name, "model", model.name, "split", at, "k", s.k, "sweeps", found.sweeps,
					"valid_rmse", s.valid.rmse, "rmse", s.test.rmse, "ndcg_1", s.test.ndcg1, "seconds", s.seconds)
			}
			summary := summarize(bySplit, 0)
			row := []string{
				b.name,
				model.name,
				fmt.Sprint(bySplit[0][0].k),
				fmt.Sprint(splits),
				fmt.Sprintf("%.4f", valid),
			}
			main.Rows = append(main.Rows, append(row, summary.cells()...))
			if model.single && valid < lowest {
				lowest, chosen, chosenName = valid, summary, model.name
			}
		}
		if !o.Quick {
			r.Bars = append(r.Bars, b.best.bars(b.name+", "+chosenName, chosen)...)
		}
		main.Notes = append(main.Notes, fmt.Sprintf("Others on %s, other runs (RMSE / nDCG@1): %s.", b.name, b.peers))
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.Tables = []Table{main}
	return r, nil
}

// candidate is a way to fit ratings. single says that it is one model of at most 32 basis vectors.
type candidate struct {
	name   string
	single bool
	fit    func(ctx context.Context, o *Options, set *ratingSet, p parts) (*fitted, error)
}

// fitted is a model and the seconds that it took.
type fitted struct {
	model   *solver.Model
	sweeps  int
	seconds float64
}

func (b *ratingBenchmark) candidates(quick bool) []candidate {
	var list []candidate
	sizes := b.sizes
	if quick {
		sizes = sizes[:1]
	}
	for _, k := range sizes {
		for _, ordinal := range []bool{false, true} {
			name := map[bool]string{false: "variational, one output", true: "variational, McRank"}[ordinal]
			fit := func(ctx context.Context, o *Options, set *ratingSet, p parts) (*fitted, error) {
				return o.variational(ctx, set, p, variationalStart{ordinal: ordinal, basis: k})
			}
			list = append(list, candidate{fmt.Sprintf("%s, k = %d", name, k), true, fit})
		}
	}
	if quick {
		return list
	}
	k, curve := sizes[len(sizes)-1], &b.curves[len(b.curves)-1]
	full := func(ctx context.Context, o *Options, set *ratingSet, p parts) (*fitted, error) {
		return o.full(ctx, set, p, curve)
	}
	average := func(ctx context.Context, o *Options, set *ratingSet, p parts) (*fitted, error) {
		return o.average(ctx, set, p, variationalStart{ordinal: true, basis: k})
	}
	return append(list, candidate{fmt.Sprintf("full refits, %s, λ = %g", curve.name, curve.lambda), true, full},
		candidate{fmt.Sprintf("mean of %d variational refits, McRank, k = %d", averaged, k), false, average})
}

// variationalStart says what a variational refit starts from.
type variationalStart struct {
	ordinal bool
	basis   int
	seed    uint64
	// scattered starts from random coordinates in place of the leading interactions, which are the same for every seed.
	scattered bool
	// the prior of the second stage of refitd fit: tighter, and the sweeps may make it as tight as they like
	uncapped bool
	until    float64 // stop once the validation error is at most this; 0 for as long as it falls
}

// variational runs sweeps for as long as the error on the validation rows falls, and keeps the best model.
func (o *Options) variational(ctx context.Context, set *ratingSet, p parts, start variationalStart) (*fitted, error) {
	problem := set.problem(p.train, start.ordinal)
	began := o.Now()
	likelihood := posterior.Gaussian
	if start.ordinal {
		likelihood = posterior.Logistic
	}
	prior := posterior.PriorFor(likelihood, 1)
	if start.uncapped {
		prior.Basis, prior.Cap = 15.0/8*prior.Basis, math.Inf(1)
	}
	random := rand.New(rand.NewPCG(start.seed, 0x7374617274)) // "start"
	state := sweep.Start(likelihood, problem, nil, nil, start.basis, prior, random)
	if start.scattered {
		for j := range state.NumFeatures() {
			row, _ := state.Row(j)
			for r := range row[1:] {
				row[1+r] = scatter * random.NormFloat64()
			}
		}
	}
	refit, err := sweep.NewRefit(state, problem, prior.Cap, o.threads())
	if err != nil {
		return nil, fmt.Errorf("paper: %w", err)
	}
	elapsed := o.Now().Sub(began).Seconds()
	best, lowest := &fitted{}, math.Inf(1)
	for sweep := 1; sweep <= mostSweeps && sweep <= best.sweeps+worseSweeps && lowest > start.until; sweep++ {
		began = o.Now()
		if _, err := refit.Sweep(ctx); err != nil {
			return nil, fmt.Errorf("paper: %w", err)
		}
		model := state.Model()
		elapsed += o.Now().Sub(began).Seconds()
		if rmse := set.rmse(model, p.valid); rmse < lowest {
			lowest = rmse
			best = &fitted{model: model, sweeps: sweep, seconds: elapsed}
		}
	}
	if best.model == nil {
		return nil, errors.New("paper: no variational sweep gave a finite error")
	}
	return best, nil
}

// full runs Algorithm 1 with full refits and keeps the step that is best on the validation rows.
func (o *Options) full(ctx context.Context, set *ratingSet, p parts, curve *ratingCurve) (*fitted, error) {
	s := curve.settings()
	s.Refit, s.FullEvery, s.Workers = solver.Full, ratingBasis/4, o.threads()
	best, lowest := &fitted{}, math.Inf(1)
	err := follow(ctx, o.Now, set.problem(p.train, curve.ordinal), s, func(step solver.Step, m *solver.Model) {
		if rmse := set.rmse(m, p.valid); rmse < lowest {
			lowest, best = rmse, &fitted{model: m, seconds: step.Seconds}
		}
	})
	return best, err
}

// average fits from several starts and returns the mean of the models: their basis vectors side by side.
func (o *Options) average(ctx context.Context, set *ratingSet, p parts, start variationalStart) (*fitted, error) {
	all := &fitted{}
	var models []*solver.Model
	start.scattered = true
	for seed := range uint64(averaged) {
		start.seed = seed
		one, err := o.variational(ctx, set, p, start)
		if err != nil {
			return nil, err
		}
		models = append(models, one.model)
		all.seconds += one.seconds
		all.sweeps += one.sweeps
	}
	var err error
	all.model, err = averageOf(models...)
	return all, err
}
