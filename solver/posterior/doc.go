// Package posterior keeps a Gaussian posterior over the parameters of a multilinear (ANOVA, degree 2) model: refitted
// by variational blocks over a sample, and updated in closed form by single events between refits (the fold-in).
//
// The model of one example x has one of two forms. Where all m outputs share z (New: a number, a binary label, McRank
// for an ordinal one)
//
//	z(x) = Σ_j x_j w_j + Σ_r s_r Σ_{i<j} x_i h_ir x_j h_jr        o_c = θ_c + z(x)
//
// with signs s_r = ±1; where outputs are separate (NewSeparate: classes, several labels, several numbers)
//
//	o_c = θ_c + Σ_j x_j w_jc + Σ_r V[r,c] Σ_{i<j} x_i h_ir x_j h_jr
//
// with output weights V, which are refitted between sweeps. There may be any number of fields, several features of one
// field in an example, and values other than 1.
//
// Given all other features an output is linear in the row (w, h_j1 … h_jk) of feature j, so that row has a Gaussian
// posterior: with y_c = ∂o_c/∂row_j, noise weight ω_c and target t_c, its precision is A = D + Σ ω_c E[y_c
// y_cᵀ] and its mean A⁻¹ Σ ω_c E[y_c (t_c − rest_c)]. E[y yᵀ] includes the covariance of the partners' rows,
// which is what regularises the fit (Lim and Teh 2007; Rendle 2010 for the kernel). Squared loss is exact with ω the
// noise precision; binary logistic outputs use Jaakkola and Jordan's bound (2000): ω_c = 2λ(ξ_c), λ(ξ) =
// tanh(ξ/2)/(4ξ), ξ_c² = E[o_c²]; the multi-class loss uses its gradient and a majorant of its Hessian at the
// mean, see softmaxWeight. So no sweep lowers the evidence bound of Gaussian and Logistic outputs; the evidence of
// Multinomial ones is of second order, and although no sweep was seen to lower it, that is for the caller to check.
// Where there is one binary label, the quadratic of a row whose output is surely on the side of its label goes over to
// that of Laplace's method, see sharpen: its evidence is of second order, too, and a sweep that
// lowers it is undone and made by the bound.
//
// The prior precision D of every field and coordinate, the noise and θ are re-estimated after each sweep (type-II
// maximum likelihood), so there is nothing to set.
//
// The package does no I/O and takes no clock. A State is not safe for concurrent use; Sweep uses the goroutines it is
// allowed and gives the same numbers for any GOMAXPROCS.
package posterior
