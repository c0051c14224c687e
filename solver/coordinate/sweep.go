package coordinate

import "github.com/refitd/refitd/solver"

// sweep moves each coordinate once. It reports whether it was not called off; the state is then that of the point.
func (g *group) sweep() bool {
	if !g.moveBias() {
		return false
	}
	switch {
	case g.byFeature:
		if !g.sweepFeatures() {
			return false
		}
	case !g.moveLinear():
		return false
	case g.lifted:
		if !g.sweepFactors() {
			return false
		}
	case !g.sweepUnits():
		return false
	}
	g.swept++
	g.score()
	return true
}

// moveBias moves the bias.
func (g *group) moveBias() bool {
	if g.ridges[1] == 0 {
		return true
	}
	if g.isQuadratic() {
		g.moveTerms(g.ridges[1], func(yield func(term) bool) { yield(term{g.b, nil, g.ones}) })
		return g.pace.spend(4 * g.n * g.m)
	}
	g.block.load(g, nil)
	g.block.weigh(g.b, g.ones, g.scratch(2*g.m), g.ridges[1], nil)
	g.block.store(g)
	return g.pace.spend(4 * g.n * g.m)
}

// moveLinear moves the weights of the linear term, column by column.
func (g *group) moveLinear() bool {
	if g.ridges[0] == 0 {
		return true
	}
	if g.isQuadratic() {
		g.moveTerms(g.ridges[0], func(yield func(term) bool) {
			for j := range g.d {
				rows, values := g.x.Column(j)
				if !yield(term{g.w[j*g.m : j*g.m+g.m], rows, values}) {
					return
				}
			}
		})
		return g.pace.spend(4 * g.n * g.m)
	}
	work := g.scratch(2 * g.m)
	for j := range g.d {
		rows, values := g.x.Column(j)
		g.block.load(g, rows)
		g.block.weigh(g.w[j*g.m:j*g.m+g.m], values, work, g.ridges[0], nil)
		g.block.store(g)
		if !g.pace.spend(4 * len(rows) * g.m) {
			return false
		}
	}
	return true
}

// sweepUnits is algorithm 1: for each basis vector, for each feature. The weights of a basis vector follow it.
func (g *group) sweepUnits() bool {
	for s := range g.k {
		p, v := g.unit(s), g.v[s*g.m:s*g.m+g.m]
		g.forms(p)
		ridge := g.basisRidge(s)
		pass := func() {
			for j := range p {
				rows, values := g.x.Column(j)
				g.slot = sized(g.slot, len(rows))
				g.derivatives(g.slot, rows, values, p[j])
				if delta := g.step(rows, v, p[j], ridge); delta != 0 {
					for e, i := range rows {
						x := values[e]
						g.a[i] -= delta * (g.z[i] - p[j]*x) * x // its derivative does not depend on p_j
						g.z[i] -= delta * x
					}
					p[j] -= delta
				}
				if !g.pace.spend(6 * len(rows) * g.m) {
					return
				}
			}
		}
		if g.isQuadratic() {
			g.moveAlong(v, p, ridge, pass, func() { g.forms(p) })
		} else {
			pass()
		}
		if g.pace.stopped {
			return false
		}
		for j, x := range p {
			g.h[j*g.k+s] = x
		}
		if g.weightsRest() {
			continue
		}
		phi := g.a
		if g.degree == 3 {
			phi = g.cubes(p)
		}
		g.moveWeights(s, phi, sumSquares(p))
		if !g.pace.spend(6 * g.n * g.m) {
			return false
		}
	}
	return true
}

// step returns by how much to lower a coordinate at the value at whose derivatives are in slot, and moves the outputs
// of the rows, or the quantities used in their place.
func (g *group) step(rows []int32, v []float64, at, ridge float64) float64 {
	if g.isQuadratic() {
		return g.stepAlong(rows, g.slot, at, ridge)
	}
	g.block.load(g, rows)
	delta := g.block.step(g.slot, v, g.block.curvature(g.slot), at, ridge)
	if delta != 0 {
		g.block.store(g)
	}
	return delta
}

// derivatives stores ∂K/∂p_j of the rows of a column at p_j in dst (appendix D.1).
func (g *group) derivatives(dst []float64, rows []int32, values []float64, p float64) {
	if g.degree == 2 {
		for e, i := range rows {
			x := values[e]
			dst[e] = (g.z[i] - p*x) * x
		}
		return
	}
	for e, i := range rows {
		x := values[e]
		y := p * x
		dst[e] = (g.a[i] - y*(g.z[i]-y)) * x
	}
}

// moveWeights moves the weights of unit s, whose activations are phi and whose basis vector has the given squared
// length.
func (g *group) moveWeights(s int, phi []float64, square float64) {
	if g.isQuadratic() && g.rule == ridged {
		g.moveTerms(g.beta, func(yield func(term) bool) { yield(term{g.v[s*g.m : s*g.m+g.m], nil, phi}) })
		return
	}
	g.block.load(g, nil)
	defer g.block.store(g)
	row, work := g.v[s*g.m:s*g.m+g.m], make([]float64, 2*g.m)
	switch g.rule {
	case ridged:
		g.block.weigh(row, phi, work, g.beta, nil)
	case normed:
		g.block.weigh(row, phi, work, 0,
			func(row []float64, share float64) { g.norm.Prox(row, 1, g.m, share*g.beta*square) })
	case single:
		g.block.weigh(row, phi, work, 0, func(row []float64, share float64) {
			solver.L1.Prox(row, 1, g.m, share*g.beta*square)
			for c := range row {
				if g.output != nil && c != g.output[s] {
					row[c] = 0
				}
			}
		})
	}
}

// sweepFactors is algorithm 2, and appendix D.3 for the ANOVA kernel: for each factor of each unit, for each feature.
func (g *group) sweepFactors() bool {
	for t := range g.degree {
		for s := range g.k {
			g.factorForms(s, t)
			u, v := g.p[t*g.k+s], g.v[s*g.m:s*g.m+g.m]
			rest := g.products(g.a, t)
			pass := func() {
				for j := range u {
					rows, values := g.x.Column(j)
					g.slot = sized(g.slot, len(rows))
					g.factorDerivatives(g.slot, rows, values, rest, t, s, j)
					u[j] -= g.step(rows, v, u[j], g.beta)
					if !g.pace.spend(5 * len(rows) * g.m) {
						return
					}
				}
			}
			if g.isQuadratic() {
				g.moveAlong(v, u, g.beta, pass, func() {})
			} else {
				pass()
			}
			if g.pace.stopped {
				return false
			}
		}
	}
	if g.weightsRest() {
		return true
	}
	for s := range g.k {
		g.moveWeights(s, g.activations(s), 0)
		if !g.pace.spend(8 * g.n * g.m) {
			return false
		}
	}
	return true
}

// factorDerivatives stores ∂K/∂u_js^t of the rows of column j in dst. Rest is the product of the other factors' forms.
func (g *group) factorDerivatives(dst []float64, rows []int32, values, rest []float64, t, s, j int) {
	for e, i := range rows {
		dst[e] = rest[i] * values[e]
	}
	if g.kernel == solver.ANOVA {
		other := g.p[(1-t)*g.k+s][j]
		for e, x := range values {
			dst[e] = 0.5 * (dst[e] - other*x*x)
		}
	}
}

// scratch returns size numbers that nothing else holds while a term of the linear model moves.
func (g *group) scratch(size int) []float64 {
	g.work = sized(g.work, max(size, g.d))
	return g.work[:size]
}
