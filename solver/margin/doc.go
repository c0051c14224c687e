// Package margin learns multi-category support vector machines by their dual, with a certified gap: Tajima, Hirohashi,
// Zara and Kato 2020, "Frank-Wolfe algorithm for learning SVM-type multi-category classifiers" (arXiv 2008.08894). SVM
// is a solver.Algorithm. The package knows problems and models of package solver, and neither events nor files but the
// lines of a cost matrix.
//
// The problem, over linear weights W (d×m) and a bias b, is
//
//	P(W, b) = Σ_i w_i Φ(o_i; y_i) + ½ Λ (‖W‖² + ‖b‖²),   o_i = W'x_i + b,   Φ(o; y) = max_{β∈B} ⟨β, Δ_y + o − o_y·1⟩
//
// with a polytope B that the loss says and costs Δ_y, 1 for every class but y. The paper takes the mean of the losses
// and a ridge λ: its problem is P/Σw with λ = Λ/Σw, so its λ = 100/n is Λ = 100. Λ is Settings.Lambda. The bias is the
// paper's constant feature: it has the ridge of the weights. Settings.BiasRidge > 0 says that there is one, and nothing
// else; LinearRidge is not used.
//
// With dual variables α_i in −∂Φ(·; y_i), one row of m for each row of the problem, W = (1/Λ) Σ_i w_i x_i α_i' and
//
//	D(α) = −½ Λ (‖W‖² + ‖b‖²) − Σ_i w_i (⟨Δ_{y_i}, α_i⟩ + ½ γ ‖α_i‖²) ≤ min P.
//
// γ > 0 takes the Moreau envelope of the loss, which is 1/γ-smooth: Φ_γ(o) = max over v in the polytope of ⟨v,
// Δ_y + o⟩ − ½γ‖v‖².
//
// # Deviations from the paper
//
// The scores of (2.24) are o + γα and the denominator of (2.26) is Λ‖ΔW‖² + γΣw‖Δα‖², as (C.24) to
// (C.26) have them and not as printed. The level weights of (2.13) and (2.14) are the differences ρ_k − ρ_{k+1}.
// Rows have weights. The default Method is exact ascent of D over one row at a time, whose step is the gradient of an
// envelope (envelope.go): it reaches a gap sooner than the paper's steps over all rows, which are there to compare.
package margin
