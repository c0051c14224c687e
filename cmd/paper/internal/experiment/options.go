package experiment

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/refitd/refitd/daemon/progress"
)

// ErrOptions is wrapped by complaints about options.
var ErrOptions = errors.New("paper: invalid option")

// Options say where the data is and how much of an experiment to run.
type Options struct {
	Data     string // directory of the data sets
	Sets     []string
	Splits   int  // of the experiments over splits; 0 takes the experiment's own number
	Quick    bool // a short form on small sets, without bars, to see that everything works
	Threads  int  // 0 takes GOMAXPROCS
	Now      func() time.Time
	Log      *slog.Logger    // results as they come
	Progress *progress.Meter // counts what an experiment fits; nil shows none
}

func (o *Options) threads() int {
	if o.Threads > 0 {
		return o.Threads
	}
	return runtime.GOMAXPROCS(0)
}

// splits returns the number of splits of an experiment.
func (o *Options) splits(usual int) int {
	switch {
	case o.Splits > 0:
		return o.Splits
	case o.Quick:
		return 1
	}
	return usual
}

// each calls f for 0 to n−1 on the threads, which the solver then has no need of. It waits for all of them and
// returns the first error.
func (o *Options) each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	o.Progress.Stage("fitting", "jobs", int64(n))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.threads())
	for i := range n {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := f(ctx, i)
			o.Progress.Add(1)
			return err
		})
	}
	return g.Wait()
}
