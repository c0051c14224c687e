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

// Task is one refit: what it is asked for, what it continues from, its rows, and what its stages have found so far.
//
// A stage (packages choose, convex, variational, gate) reads it and returns what it found. Only the driver, package
// refit, writes it, between two stages (TestStagesDoNotWriteTasks). Stages that run at once may therefore share it.
// What its pointers lead to is only read, too, but for three: Budget counts, Progress reports, and Stages.Ahead is
// taken once.
type Task struct {
	Model   *config.Model
	Schema  *event.Schema
	Start                               // what it continues from
	Process                             // where and how long it runs
	Rough   bool                        // the convex stage is polished and certified only where its model is published
	Carries bool                        // each λ of a path of Algorithm 1 starts from the solution of the one before
	Guard   *guard.Guard                // of what is published; nil of a fit that publishes nothing
	Target  *encode.Target              // of the labels of the sample
	Vocab   *encode.Vocabulary          // of the training rows
	Judge   func(*solver.Model) float64 // loss on the select rows, by which stages choose
	Rows
	Choices
	Stages
	Criteria
}

// Start is what the cycle knew when the refit began.
type Start struct {
	Champion   *fitted.Fitted // nil before the first version
	Fallback   *Fallback      // what the gate compares with where the champion cannot be read; nil without
	Updated    bool           // consumers have an update of the champion
	Cold       ColdStart      // whether it starts from nothing, and why
	Rejections int            // refits in a row that the gate rejected
	Repeats    *keptStart     // what a refit that is repeated starts from; nil of others
}

// Process is where a refit runs and when it has to end. No result depends on Workers, Yield or Now.
type Process struct {
	Workers  int    // goroutines of a pass over the rows
	Yield    func() // solver.Settings.Yield; nil without
	Now      func() time.Time
	Budget   *Budget      // never nil
	Progress *FitProgress // of an offline fit; nil of others
}
