// Package experts has the online learners: each predicts an event and then learns from it. Their predictions are parts
// of the mixture, and some of them can be published as updates.
//
// It does not weigh the experts against each other (mixture). Kinds is the table of all that there are: a row
// says its name, when a model has it, how it is made and what memory it takes. An expert does not read a clock, and
// its memory is bounded by train.fold_in.max_rows or by a named constant.
//
// Goroutines: a Learner belongs to one goroutine at a time. In a cycle they are guarded by Cycle.mu. Each
// learner may run on a goroutine that the holder of the lock starts and waits for (pipeline.go of package cycle): they
// share nothing that changes, and those that see numbers have a running scale each (onNumbers). Gather or Outputs
// always comes before Learn of the same event. What is learned is a function of the order of events alone. Only
// Slots.Evicted is atomic, for the scraper. What of an event is learned, package admission decides.
//
// Files:
//
//	foldin.go        Learner, and the fold-in of multilinear models in closed form (FoldIn)
//	gradient.go      the fold-in of other models, by gradient steps (Gradient)
//	expert.go        a learner with name, target and scales (Expert); names of the parts
//	kind.go          the table of experts (Kinds), and what they are made for (Setting)
//	numberkinds.go   the rows of experts on numeric fields
//	gaussian.go      the rows of fold-ins that are experts; levels as numbers (GaussianTarget)
//	adagrad.go       linear in numbers, products and recent labels (AdaGrad)
//	newton.go        Fourier features by Newton's steps (Newton); newtonupdate.go has it as a model
//	neighbours.go    nearest recent events (Neighbours), over the trees of package kdtree
//	boosted.go       rules on numbers and names (Boosted), by the trees of package trees
//	pairs.go         names and pairs of names (Pairwise), in the table of cells.go; pairs_model.go has it as a model
//	residual.go      weights by recent loss (Weights)
//	sleeper.go       experts that may keep events without predicting them (Sleeper)
package experts
