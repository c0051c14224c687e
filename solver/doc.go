// Package solver learns multi-output polynomial networks and factorization machines from a sample in memory. Rows,
// Problem and Model are shared by all algorithms; Solve is Algorithm 1 of Blondel et al. 2017, a conditional gradient
// method that adds one basis vector at a time and refits the output weights under a sparsity-inducing penalty.
//
// The penalised problem, over output weights V with rows indexed by all unit vectors h, linear weights W and bias b, is
//
//	min  Σ_i weight_i ℓ(t_i, o(x_i)) + λ Ω(V) + ½ α ‖W‖² + ½ α_b ‖b‖²,   o(x) = Σ_r V[r,·] K(h_r, x) + W'x + b.
//
// # Notation
//
//	symbol      in Go                            meaning and source (2017 paper unless noted)
//	n, d, m, k  NumRows, NumFeatures,            examples, features, outputs, basis vectors
//	            NumOutputs, NumBasis
//	H, h_r      Model.Basis, d×k feature-major   shared basis, unit vectors while solving; eq. (1)
//	V, v_r      Model.Weights, k×m               output weights; eq. (1)
//	W, b        Model.Linear, Model.Bias         linear term and bias, separate from the penalty
//	K(h, x)     Kernel                           ⟨h,x⟩² (PN) or Σ_{i<j} h_i x_i h_j x_j (FM); section 2, and Blondel et al. 2016, which has
//	                                             degree 3, too: ⟨h,x⟩³ or Σ_{i<j<l} h_i x_i h_j x_j h_l x_l
//	Φ           outputFit.phi, k columns of n    activations K(h_r, x_i)
//	ℓ, ∂ℓ       Loss.Eval                        value and gradient together; appendix A
//	D           gamma.grad, n×m                  weighted loss gradients; section 4
//	Γ_c         gamma.mulBlockTo, quadraticTo    operators with h'Γ_c h = ∂F/∂V[h,c]; the paper's g is the negative; section 4
//	T_c         gamma.trilinearTo                at degree 3, the symmetric trilinear forms with T_c(h,h,h) = ∂F/∂V[h,c]
//	Ω, Ω*       Penalty.Norm, Penalty.DualNorm   penalty and dual norm; table 1
//	‖g_h‖_p     Penalty.RowDual, Step.Criterion  selection criterion; eq. (4)
//	ν           Step.Nu                          part of the best criterion that is guaranteed; table 1, here measured
//	λ           Settings.Lambda                  weight of Ω, penalised form; appendix D
//	τ           constrainedGap's radius          bound of the constrained form; eq. (2)
//	L           outputFit.smooth                 Lipschitz constant estimate of FISTA
//	α, α_b      LinearRidge, BiasRidge           ridge of the linear term and of the bias
//
// # Deviations from the paper
//
// Dominant eigenvectors come from Lanczos iterations, not the power method, which need not converge on one-hot rows.
// The group penalties refine all m per-output eigenvectors and climb |·| rather than a Huber function. FISTA lets its
// step grow. The linear term is a separate block instead of a constant feature. Full refits take steps in the metric
// of the diagonals of two Gauss–Newton blocks.
//
// At degree 3 there is no eigenvector to begin with, and no bound of the dual norm that is of use: basis vectors are
// sought from several starts (selectCubic), and gaps are estimated, never certified.
//
// Where a refit of the weights crawls, or the certified gap stays above Tolerance, and rows, columns and outputs are
// few, a barrier method has the last word (refine).
//
// # Results and concurrency
//
// Sums over rows are taken in fixed blocks and added in order: on one platform, results are the same bits for any
// number of workers.
// A panic on one of a solve's goroutines is raised again on the caller's.
// Values that are read-only once built (Rows, Problem, a published Model, losses and penalties) are safe for concurrent
// use.
package solver
