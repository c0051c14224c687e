package solver

import (
	"github.com/refitd/refitd/solver/internal/convexfm"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/internal/output"
	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/problem"
)

// RowsFootprint returns the bytes of the problem's n rows of some entries each, with their targets and weights.
func RowsFootprint(n, entries, outputs int) int64 { return int64(n) * int64(8+12*entries+8*outputs+8) }

// ModelFootprint returns the bytes of a model over d features with k basis vectors.
func ModelFootprint(d, k, outputs int, linear bool) int64 {
	parameters := int64(d)*int64(k) + int64(k)*int64(outputs) + int64(outputs)
	if linear {
		parameters += int64(d) * int64(outputs)
	}
	return 8 * parameters
}

// SolveFootprint returns the bytes that Solve takes in addition to the problem and its model: for every row a kernel
// value for each of k basis vectors, predictions, gradients and directions of the outputs, and the columns that are
// fitted together with the output weights; for every feature the vectors that the next basis vector is sought with.
// With one output and few rows and columns there are the matrices of refine as well.
func SolveFootprint(n, d, k, outputs int) int64 {
	joint := 1
	if d <= linear.JointColumns {
		joint += d
	}
	bytes := 8*(int64(n)*int64(k+12*outputs+joint)+32*int64(d)*int64(outputs)) + ClassFootprint(outputs)
	if outputs == 1 && convexfm.InteriorFits(n, d) {
		bytes += 16 * int64(n) * (int64(d)*int64(d) + int64(n))
	}
	return bytes
}

// FactorsFootprint returns the bytes that ConvexFM takes in addition to SolveFootprint where it moves k basis vectors
// by descents: the entries by columns, the vectors, inner products and derivatives in them, three numbers for every
// row, and of corrective refits four more, axes and the best vectors so far; where so few columns are refitted as a
// whole, at least the matrices of that.
func FactorsFootprint(n, entries, d, k int) int64 {
	inner := int64(n) * int64(k)
	bytes := 24*int64(n)*int64(entries) + 8*(3*int64(d)*int64(k)+inner+min(inner, convexfm.MaxMoves)+7*int64(n))
	if d <= convexfm.NewtonColumns && k >= d {
		all := int64(d*(d+3)/2 + 1)
		bytes = max(bytes, 8*(all*(3*all+2*gamma.GammaBlocks*(all+loss.FitTile))+2*int64(n)))
	}
	return bytes
}

// ClassFootprint returns the bytes of that which grow with the square of the outputs: the gradient of each at the
// eigenvector of each other.
func ClassFootprint(outputs int) int64 { return 8 * int64(outputs) * int64(outputs) }

// CubicFootprint returns the bytes that a solve with a kernel of degree 3 takes in addition to SolveFootprint: for
// every feature, contractions of all outputs, the starts of a selection as they are chosen and climb, and the sums of
// a product in its blocks.
func CubicFootprint(d, outputs int) int64 {
	perOutput := int64(gamma.ContractionSteps + 2 + 4*2*gamma.EndVectors)
	if outputs > gamma.MaxEndOutputs {
		perOutput = gamma.ContractionSteps + 2 + 4
	}
	return 8 * int64(
		d) * (perOutput*int64(outputs) + int64(4*gamma.FineCubic.Starts+gamma.GammaBlocks*gamma.CubicColumns))
}

// DenseFootprint returns the bytes that a DenseFit of n rows and so many columns takes, its rows picked from a problem
// included.
func DenseFootprint(n, columns, outputs int) int64 {
	width := int64(columns + 1)
	const perOutput = 7 // offsets and targets as given and in tiles, predictions at three points
	const vectors = 2*output.LinearMemory + 8
	return 8 * (int64(n)*(width+perOutput*int64(outputs)+3) + (4*width+loss.FitTile)*width + int64(vectors+
		problem.NumBlocks(n))*width*int64(outputs))
}
