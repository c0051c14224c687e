// Package baselines has the predictors of the mixture that need no model: means, last labels, biases by gradient steps.
//
// Kinds is the table of all. A baseline does not know experts or how it is weighed and reads no clock. Its memory is
// bounded by [Setting.Limit] names. It belongs to one goroutine at a time, in a cycle that which has Cycle.mu. What it
// learns is a function of the order of events alone.
//
// Files:
//
//	kind.go      the table (Kinds), and what baselines are made for (Setting)
//	baseline.go  sums and last labels of names (Baseline, Conditional)
//	sgdbias.go   biases by gradient steps (SGDBias, NumberSGD)
package baselines
