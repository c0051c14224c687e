// Package coordinate fits polynomial networks and factorization machines of degree 2 and 3 by coordinate descent
// (Blondel, Ishihata, Fujino and Ueda 2016, "Polynomial Networks and Factorization Machines: New Insights and Efficient
// Training Algorithms"): a number of basis vectors is given, all start at random and no step size is chosen. Each
// coordinate is moved to where a quadratic bound of the objective is least; the bound is exact for the squared loss.
// The objective falls with each move, to a stationary point: there is no certificate.
//
// # Objectives
//
// With o(x) = Σ_s v_s K(p_s, x) + W'x + b and β = Settings.Lambda, added to the sum of the weighted losses, without a
// factor 1/n:
//
//	direct, degree 2            β Σ_s Ω(v_s) ‖p_s‖²        equation (13); Ω is |λ_s| for one output
//	direct, degree 3            β Σ_s ‖p_s‖²               v_s = 1: it can be absorbed into p_s (lemma 4)
//	direct, degree 3, shared    β Σ_s (‖p_s‖² + ½‖v_s‖²)
//	lifted                      ½β Σ_s Σ_t ‖u_s^t‖²        equation (12); of the factors of each product Π_t ⟨u_s^t, x⟩
//	lifted, shared              ½β Σ_s (Σ_t ‖u_s^t‖² + ‖v_s‖²)
//	all                         ½α ‖W‖² + ½α_b ‖b‖²        Settings.LinearRidge and BiasRidge; 0 leaves the term out
//
// For degree 2 the first is what solver.Solve minimises with λ = β, for basis vectors of any length, and β is on the
// scale of solver.LambdaMax. For degree 3 without interactions every β has a local minimum, and the scale of β is that
// of the features.
//
// # Notation
//
//	symbol    in Go                 meaning and source (2016 paper)
//	P, p_s    point.p, d×k          basis of the direct objective; equation (1)
//	λ_s, v_s  point.v, k×m          weights of basis vector s, one for each output
//	U^t, u_s  point.u               factors of the lifted objective, r = k/degree units of degree vectors; equation (10)
//	μ         Loss.Curvature        bound of the second derivative of the loss; table 1
//	η         eta                   bound of that of the objective in a coordinate
//	ξ         rest                  what a factor is multiplied by, Π_{t'≠t} ⟨u_s^t', x⟩
//
// # Results and concurrency
//
// Basis vectors of a result are of unit length, their lengths moved into the weights. Units of the lifted objective
// become basis vectors without any error but rounding: of degree 2 by the eigendecomposition of S(UVᵀ), at most k; of
// degree 3 by polarisation, four a unit, so 4k/3.
//
// A descent is sequential and uses one goroutine: results do not depend on the number of workers.
package coordinate
