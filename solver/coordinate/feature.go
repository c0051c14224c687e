package coordinate

// maxSlots bounds the derivatives that are kept at a time.
const maxSlots = 1 << 20

// sweepFeatures moves the coordinates of one feature after the other, over all basis vectors, in an order other than
// that of algorithm 1: with rows of few entries the derivatives ∂K/∂p_j are sums over the rest of each row, and
// what the rows of a feature need is at hand for all of its coordinates.
func (g *group) sweepFeatures() bool {
	linear, m := g.ridges[0] > 0, g.m
	ridges := make([]float64, g.k)
	for s := range ridges {
		ridges[s] = g.basisRidge(s)
	}
	work := g.scratch(2 * m)
	for j := range g.d {
		rows, values := g.x.Column(j)
		if g.block.load(g, rows); g.isQuadratic() {
			g.block.hold()
		}
		if linear {
			g.block.weigh(g.w[j*m:j*m+m], values, work, g.ridges[0], nil)
		}
		if !g.moveFeature(j, ridges) {
			return false
		}
		g.block.store(g)
		if !g.pace.spend(4 * len(rows) * m) {
			return false
		}
	}
	if g.weightsRest() {
		return true
	}
	for s := range g.k {
		phi, square := g.activations(s), 0.0
		for at := s; at < len(g.h); at += g.k {
			square += g.h[at] * g.h[at]
		}
		g.moveWeights(s, phi, square)
		if !g.pace.spend(8 * g.n * m) {
			return false
		}
	}
	return true
}

// moveFeature moves the coordinates of feature j, as many at a time as there is room for their derivatives.
func (g *group) moveFeature(j int, ridges []float64) bool {
	rows := len(g.block.rows)
	chunk := max(1, min(g.k, maxSlots/max(1, rows)))
	for lo := 0; lo < g.k; lo += chunk {
		hi := min(g.k, lo+chunk)
		g.slot = sized(g.slot, (hi-lo)*rows)
		g.restTo(g.slot, j, lo, hi)
		for s := lo; s < hi; s++ {
			slot, p := g.slot[(s-lo)*rows:(s-lo+1)*rows], &g.h[j*g.k+s]
			*p -= g.block.step(slot, g.v[s*g.m:s*g.m+g.m], g.block.curvature(slot), *p, ridges[s])
		}
		if !g.pace.spend(4 * (hi - lo) * rows * g.m) {
			return false
		}
	}
	return true
}

// restTo stores the derivatives ∂K(p_s,x)/∂p_j of basis vectors lo ≤ s < hi in dst, one after the other, each for
// the rows of column j.
func (g *group) restTo(dst []float64, j, lo, hi int) {
	a, b := g.x.Start[j], g.x.Start[j+1]
	n := b - a
	if g.degree == 2 && g.x.Mate != nil {
		g.pairsTo(dst, g.x.Mate[a:b], g.x.Product[a:b], lo, hi)
		return
	}
	g.work = sized(g.work, max(g.d, 2*(hi-lo)))
	sum, square := g.work[:hi-lo], g.work[hi-lo:2*(hi-lo)]
	for e, i := range g.x.Rows[a:b] {
		clear(sum)
		clear(square)
		own := g.x.Value[a+e]
		var index []int32
		var value []float64
		if r := g.x.Others; r > 0 {
			index, value = g.x.Rest[(a+e)*r:(a+e+1)*r], g.x.RestValue[(a+e)*r:(a+e+1)*r]
		} else {
			index, value = g.rows.Row(int(i))
		}
		for o, l := range index {
			if int(l) == j {
				continue
			}
			for s, q := range g.h[int(l)*g.k+lo : int(l)*g.k+hi] {
				y := q * value[o]
				sum[s] += y
				square[s] += y * y
			}
		}
		for s, y := range sum {
			if g.degree == 3 {
				y = 0.5 * (y*y - square[s])
			}
			dst[s*n+e] = y * own
		}
	}
}

// pairsTo is restTo of rows of two entries, of which mate has the other columns, four rows at a time.
func (g *group) pairsTo(dst []float64, mate []int32, product []float64, lo, hi int) {
	n, e := len(mate), 0
	for ; e+4 <= n; e += 4 {
		a, b := g.h[int(mate[e])*g.k+lo:int(mate[e])*g.k+hi], g.h[int(mate[e+1])*g.k+lo:int(mate[e+1])*g.k+hi]
		c, d := g.h[int(mate[e+2])*g.k+lo:int(mate[e+2])*g.k+hi], g.h[int(mate[e+3])*g.k+lo:int(mate[e+3])*g.k+hi]
		b, c, d = b[:len(a)], c[:len(a)], d[:len(a)]
		x, y, z, w := product[e], product[e+1], product[e+2], product[e+3]
		for s, q := range a {
			to := dst[s*n+e : s*n+e+4 : s*n+e+4]
			to[0], to[1], to[2], to[3] = q*x, b[s]*y, c[s]*z, d[s]*w
		}
	}
	for ; e < n; e++ {
		for s, q := range g.h[int(mate[e])*g.k+lo : int(mate[e])*g.k+hi] {
			dst[s*n+e] = q * product[e]
		}
	}
}
