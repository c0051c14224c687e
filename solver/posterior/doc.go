// Package posterior keeps a Gaussian posterior over the parameters of a multilinear (ANOVA, degree 2) model: refitted by variational
// blocks over a sample, and updated in closed form by single events between refits (the fold-in).
//
// The model of one example x is
//
//	z(x) = Σ_j x_j w_j + Σ_r s_r Σ_{i<j} x_i h_ir x_j h_jr        o_c = θ_c + z(x)
//
// with signs s_r = ±1. Given all other features it is linear in the row (w_j, h_j1 … h_jk) of feature j, so that row has a Gaussian
// posterior: with y = ∂z/∂row_j, noise weight ω and target t, its precision is A = D + Σ ω E[y yᵀ] and its mean A⁻¹ Σ ω E[y (t − rest)].
// E[y yᵀ] includes the covariance of the partners' rows, which is what regularises the fit (Lim and Teh 2007; Rendle 2010 for the
// kernel). Squared loss is exact with ω the noise precision; logistic outputs use Jaakkola and Jordan's bound (2000):
// ω = Σ_c 2λ(ξ_c), λ(ξ) = tanh(ξ/2)/(4ξ), ξ_c² = E[o_c²]. The prior precision D of every field and basis vector, the noise and θ are
// re-estimated after each sweep (type-II maximum likelihood), so there is nothing to set. All m outputs share z; that is McRank with
// shared interactions for an ordinal label, and the ordinary model for m = 1.
//
// The package does no I/O and takes no clock. A State is not safe for concurrent use; Sweep uses the goroutines it is allowed and
// gives the same numbers for any GOMAXPROCS.
package posterior
