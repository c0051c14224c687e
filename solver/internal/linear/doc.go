// Package linear fits the linear term and the bias on top of other predictions, and dense columns (DenseFit).
// It moves no output weight. A fit belongs to one goroutine and uses the workers that it was given.
package linear
