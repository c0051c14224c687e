package solver

import (
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/penalty"
	"github.com/refitd/refitd/solver/problem"
)

// Names of the packages below that callers of this one use. Their full documentation is where they are declared.

type (
	// BinaryLogistic is the sum over outputs of log(1 + exp(−t_c o_c)) with targets t_c = ±1: ordinal regression
	// by McRank (Li et al. 2007) and multi-label classification.
	BinaryLogistic = loss.BinaryLogistic
	// BinarySquaredHinge is the squared hinge loss Σ_c max(1 − t_c o_c, 0)² with targets t_c = ±1, for every
	// output separately.
	BinarySquaredHinge = loss.BinarySquaredHinge
	// DenseFit fits linear weights of k dense columns and a bias on top of given outputs.
	DenseFit = linear.DenseFit
	// GapBound names the upper bound of the dual norm Ω*(∇F) = max over unit h of the criterion, that a
	// certified gap depends on.
	GapBound = gamma.GapBound
	// Kernel is the interaction K(h, x) between a basis vector and an example, with its degree (Blondel et al.
	// 2016, section 3).
	Kernel = problem.Kernel
	// A Loss is smooth and convex in the m outputs of one example (Blondel et al. 2017, appendix A).
	Loss = loss.Loss
	// Model predicts o(x)_c = Σ_r Weights[r,c] K(h_r, x) + ⟨Linear[·,c], x⟩ + Bias[c].
	Model = problem.Model
	// MultinomialLogistic is the multi-class logistic loss log Σ_c exp(o_c) − ⟨target, o⟩; the target is
	// one-hot.
	MultinomialLogistic = loss.MultinomialLogistic
	// Penalty is the sparsity-inducing norm Ω over the rows of the output weights V (Blondel et al. 2017, table
	// 1).
	Penalty = penalty.Penalty
	// Problem is a weighted sample of examples and the loss to fit them by: minimise Σ_i weight_i ·
	// loss(target_i, o(x_i)).
	Problem = problem.Problem
	// Rows is a sparse n×d matrix in compressed sparse row form: the entries of row i are
	// Index[Start[i]:Start[i+1]] (columns, strictly increasing) and Value at the same places.
	Rows = problem.Rows
	// Selection says from where a basis selection starts and whether it continues by refinement, iteration (6)
	// of Blondel et al. 2017, on |·| for ℓ1/ℓ∞: their Huber function flattens small gradients and made
	// selections worse.
	Selection = gamma.Selection
	// SmoothedHinge is the smoothed multi-class hinge loss log(1 + Σ_{c≠y} exp(1 + o_c − o_y)) (Blondel et al.
	// 2017, table 3): the multi-class logistic loss with every wrong class one unit ahead.
	SmoothedHinge = loss.SmoothedHinge
	// Squared is ½ ‖o − target‖².
	Squared = loss.Squared
	// SquaredHinge is the multi-class squared hinge loss Σ_{c≠y} max(1 + o_c − o_y, 0)² (Blondel et al. 2017,
	// table 3).
	SquaredHinge = loss.SquaredHinge
)

const (
	// ANOVA is A²(h,x) = Σ_{i<j} h_i x_i h_j x_j: products of different features, as in a factorization machine.
	ANOVA = problem.ANOVA
	// ANOVA3 is A³(h,x) = Σ_{i<j<l} h_i x_i h_j x_j h_l x_l: products of three different features.
	ANOVA3 = problem.ANOVA3
	// AllStarts refines the dominant eigenvectors of all outputs, in careful searches others as well, and keeps
	// the best.
	AllStarts = gamma.AllStarts
	// BestData takes the row x/‖x‖ of largest criterion, in O(n²) operations where the operators are not
	// explicit.
	BestData = gamma.BestData
	// Flattenings is the lesser spectral norm of [B_1 … B_m] and [B_1ᵀ … B_mᵀ] for ℓ1/ℓ2 on rows of two
	// features, one of each of two fields, where B_c are the blocks of Γ_c between the fields; √m times that for
	// ℓ1/ℓ∞.
	Flattenings = gamma.Flattenings
	// Homogeneous is H²(h,x) = ⟨h,x⟩²: squares included, as in a polynomial network.
	Homogeneous = problem.Homogeneous
	// Homogeneous3 is H³(h,x) = ⟨h,x⟩³.
	Homogeneous3 = problem.Homogeneous3
	// L1 is Σ|v|, the lasso: basis vectors serve single outputs.
	L1 = penalty.L1
	// L1L2 is Σ_r ‖v_r‖₂, the group lasso: basis vectors are shared by the outputs.
	L1L2 = penalty.L1L2
	// L1Linf is Σ_r ‖v_r‖∞: shared, with weights of like magnitude.
	L1Linf = penalty.L1Linf
	// L1Only takes that vector as it is.
	L1Only = gamma.L1Only
	// L1Start refines the vector that the ℓ1 penalty would choose, the paper's proposal.
	L1Start = gamma.L1Start
	// OutputNorms is the dual norm of the spectral norms of the Γ_c.
	OutputNorms = gamma.OutputNorms
	// QuarticForm is √λmax of the form Σ_c (hᵀΓ_c h)² over symmetric matrices instead of hhᵀ, see QuarticBound,
	// for ℓ1/ℓ2; √m times that for ℓ1/ℓ∞.
	QuarticForm = gamma.QuarticForm
	// RandomOnly takes a random unit vector as it is.
	RandomOnly = gamma.RandomOnly
	// RandomStart refines a random unit vector.
	RandomStart = gamma.RandomStart
	// SignPatterns is max over signs s of |λ|max(Σ_c s_c Γ_c), which is Ω* of ℓ1/ℓ∞.
	SignPatterns = gamma.SignPatterns
	// SumOfModuli is λmax(Σ_c |Γ_c|) for ℓ1/ℓ∞.
	SumOfModuli = gamma.SumOfModuli
	// SumOfSquares is √λmax(Σ_c Γ_c²) for ℓ1/ℓ2, √m times that for ℓ1/ℓ∞.
	SumOfSquares = gamma.SumOfSquares
)

// ErrProblem is wrapped by every complaint about the shape or the numbers of a Problem.
var ErrProblem = problem.ErrProblem

// KernelOf returns the kernel of a kind, as String says it, and a degree.
func KernelOf(kind string, degree int) (Kernel, error) { return problem.KernelOf(kind, degree) }

// NewModel returns a model without basis vectors: zero bias and, if linear, a zero linear term.
func NewModel(kernel Kernel, numFeatures, numOutputs int, linear bool) *Model {
	return problem.NewModel(kernel, numFeatures, numOutputs, linear)
}

// NewRows returns an empty matrix with numColumns columns and room for the given numbers of rows and entries.
func NewRows(numColumns, numRows, numEntries int) *Rows {
	return problem.NewRows(numColumns, numRows, numEntries)
}
