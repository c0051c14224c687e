package task

import (
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/guard"
	"github.com/refitd/refitd/solver"
)

// Task is one refit: a sample, what it continues from, and what it found so far.
type Task struct {
	Model      *config.Model
	Schema     *event.Schema
	Champion   *fitted.Fitted // nil before the first version
	Fallback   *Fallback
	Updated    bool // consumers have an update of the champion
	Cold       ColdStart
	Rejections int        // in a row before it
	Rough      bool       // the convex stage is polished and certified only where its model is published
	Carries    bool       // each λ of a path of Algorithm 1 starts from the solution of the one before
	Repeats    *keptStart // what a refit that is repeated starts from
	Workers    int
	Yield      func() // solver.Settings.Yield
	Budget     *Budget
	Now        func() time.Time
	Judge      func(*solver.Model) float64 // loss on the select rows
	Guard      *guard.Guard                // of what is published; nil of a fit that publishes nothing
	Progress   *FitProgress                // of an offline fit
	Target     *encode.Target
	Vocab      *encode.Vocabulary
	Rows
	Choices
	Stages
	Criteria
}
