package margin

import (
	"math"
	"slices"
)

// envelope returns max over v in the polytope of ⟨v, Δ_y + o + qα⟩ − ½g‖v‖² and stores v, which may be o: value and
// gradient of the Moreau envelope of parameter g > 0, and the step of an exact ascent over one row. Without α its part
// is 0. With rivals' weights u, v = u − (1'u)·e_y, so that it is max ⟨u, a⟩ − ½g(‖u‖² + (1'u)²). It costs O(m log m),
// O(m) for a single weight.
func (r *rule) envelope(v, o, alpha []float64, q float64, y int, g float64, s *scratch) float64 {
	r.margins(s.a, o, alpha, q, y)
	top := 0.0
	for _, a := range s.a {
		top = max(top, a)
	}
	if g*r.total <= flat*top {
		copy(v, o)
		for c, x := range alpha { // nil for none
			v[c] += q * x
		}
		return r.vertex(v, v, y, s) // the quadratic is lost in rounding
	}
	clear(v)
	switch {
	case r.single:
		r.capSum(v, y, g, top, s)
	case r.each:
		r.capEach(v, alpha, y, g, s)
	default:
		r.capMean(v, y, g, s)
	}
	sum, value, square := 0.0, 0.0, 0.0
	for c, u := range v {
		sum += u
		square += u * u
		value += u * s.a[c]
	}
	v[y] = -sum
	return value - 0.5*g*(square+sum*sum)
}

// flat is the part of the largest margin below which the curvature of a step is taken for 0.
const flat = 1e-13

// capSum is the case of weights at least 0 of sum at most h = ρ_1: u = (a − θ)₊/g with Σ(a − θ)₊ = min(θ, gh). Newton's
// method finds θ from below in finitely many steps, as the function is convex and has finitely many pieces. The largest
// margin, or 0, is top.
func (r *rule) capSum(u []float64, y int, g, top float64, s *scratch) {
	if top == 0 {
		return
	}
	limit := g * r.rho[0]
	over := 0.0 // of Σ(a − gh)₊
	for _, a := range s.a {
		over += max(a-limit, 0)
	}
	shift, theta, bound := 0.0, top/2, 0.0
	if over >= limit { // the sum is at its bound: relative to the largest, which alone is no less than θ − top
		shift, theta, bound = top, -limit, limit
	}
	for last := r.m; ; { // fewer margins are above θ each time, but for rounding
		sum, count := 0.0, 0
		for c, a := range s.a {
			if c != y && a-shift > theta {
				sum += a - shift
				count++
			}
		}
		if count >= last || count == 0 {
			break
		}
		last = count
		if bound > 0 {
			theta = (sum - bound) / float64(count)
		} else {
			theta = sum / float64(count+1)
		}
	}
	for c, a := range s.a {
		if c != y && a-shift > theta {
			u[c] = (a - shift - theta) / g
		}
	}
}

// capEach is the case of weights at least 0 of which no j add up to more than the first j of ρ. With z = a/g, the
// projection of z onto the weights that add up to Σρ is z − w, where w is the isotonic regression of the sorted z − ρ.
// It bounds each: u = min((z − t)₊, z − w) with Σu = t. Rivals behind the last positive ρ have u = 0 but for those that
// are pooled with it, so that few need be sorted.
func (r *rule) capEach(u, alpha []float64, y int, g float64, s *scratch) {
	n := s.lead(r.ranked+1, y)
	if n == 0 || s.a[s.order[0]] <= 0 {
		return
	}
	for {
		largest := s.a[s.order[0]]
		for j, c := range s.order[:n] {
			s.d[j] = (s.a[c] - largest) / g
			s.w[j] = s.d[j] - r.rho[j]
		}
		if pools := s.isotonic(n); s.size[pools-1] == 1 || n >= r.m-1 {
			break // the last one's ρ is 0 and its w its z, and so are those of all after it
		}
		n = s.sort(y)
	}
	s.within(r, n, -1, g, 1)
	start := r.total
	if alpha != nil && alpha[y] > 0 {
		start = alpha[y] // Σu of the last time
	}
	t := rootFrom(start, r.total, func(t float64) (value, slope float64) {
		value, slope = -t, -1
		for j, c := range s.order[:n] {
			switch z := s.a[c] / g; {
			case z-s.part[j] >= t:
				value += s.part[j]
			case z > t:
				value += z - t
				slope--
			default:
				return value, slope // and so are all further ones
			}
		}
		return value, slope
	})
	for j, c := range s.order[:n] {
		u[c] = max(min(s.a[c]/g-t, s.part[j]), 0)
	}
}

// capMean is the case of weights that are mixtures of orders of ρ, y included, times a factor f ≤ 1. For a given f,
// with y at fΣρ, they are the projection of z onto the orders of fρ; the value is concave in f, with the slope Σρ_j
// w_(j) − w_y Σρ.
func (r *rule) capMean(u []float64, y int, g float64, s *scratch) {
	n := s.sort(y)
	if n == 0 || s.a[s.order[0]] <= 0 {
		return
	}
	largest := s.a[s.order[0]]
	at := 0
	slope := func(f float64) (value, curve float64) {
		at = s.mix(y, n, largest, g, f*r.total)
		for j := range n + 1 {
			s.w[j] = s.d[j] - f*r.rho[j]
		}
		s.isotonic(n + 1)
		pools := 0
		for j := 0; j <= n; {
			size := int(s.size[pools])
			weight := 0.0
			for _, rho := range r.rho[j : j+size] {
				weight += rho
			}
			rate := -weight / float64(size)
			if j <= at && at < j+size {
				rate += r.total / float64(size)
				value -= r.total * s.w[j]
				curve -= r.total * rate
			}
			value += weight * s.w[j]
			curve += weight * rate
			j += size
			pools++
		}
		return value, curve
	}
	f := rootOf(0, 1, slope)
	if f == 0 {
		return
	}
	s.within(r, n+1, at, g, f)
	for j, c := range s.order[:n+1] { // as slope left them
		if j != at {
			u[c] = max(s.part[j], 0)
		}
	}
}

// mix puts class y, at z_y = own, into the n others, which are sorted, and stores all z, less that of the largest
// margin, in d. It returns the place of y.
func (s *scratch) mix(y, n int, largest, g, own float64) (at int) {
	order := s.order[:n+1]
	for at < n && order[at] != int32(y) { // take y out where an earlier call put it
		at++
	}
	copy(order[at:], order[at+1:])
	at = n
	for at > 0 && s.a[order[at-1]]/g < own {
		at--
	}
	copy(order[at+1:], order[at:n])
	order[at] = int32(y)
	for j, c := range order {
		s.d[j] = (s.a[c] - largest) / g
	}
	s.d[at] = own - largest/g
	return at
}

// isotonic replaces the first n of w by the nearest sequence that does not rise, of which pools of equal numbers are
// averages, with their sizes in size, and returns the number of pools: pool adjacent violators.
func (s *scratch) isotonic(n int) (pools int) {
	for _, x := range s.w[:n] {
		s.sum[pools], s.size[pools] = x, 1
		pools++
		for pools > 1 && s.sum[pools-2]*float64(s.size[pools-1]) < s.sum[pools-1]*float64(s.size[pools-2]) {
			s.sum[pools-2] += s.sum[pools-1]
			s.size[pools-2] += s.size[pools-1]
			pools--
		}
	}
	j := 0
	for p := range pools {
		average := s.sum[p] / float64(s.size[p])
		for range s.size[p] {
			s.w[j] = average
			j++
		}
	}
	return pools
}

// within stores in part what the first n are above the averages of their pools with fρ added, f·ρ_j for one alone in
// its pool: with differences within the pool only, as those to the largest of all may be too large to have digits
// left for it. The one at the place at has the value fΣρ.
func (s *scratch) within(r *rule, n, at int, g, f float64) {
	z := func(j, from int) float64 { // z_j − z_from
		switch {
		case j == from:
			return 0
		case j == at:
			return f*r.total - s.a[s.order[from]]/g
		case from == at:
			return s.a[s.order[j]]/g - f*r.total
		}
		return (s.a[s.order[j]] - s.a[s.order[from]]) / g
	}
	for first, pool := 0, 0; first < n; pool++ {
		end := first + int(s.size[pool])
		average := 0.0
		for j := first; j < end; j++ {
			average += (z(j, first) - f*r.rho[j]) / float64(end-first)
		}
		for j := first; j < end; j++ {
			s.part[j] = z(j, first) - average
		}
		first = end
	}
}

// rootOf returns where a function that falls, given with its slope, is 0 between lo and hi: lo if it is not positive
// there, hi if it is not negative. It is in finitely many straight pieces, so Newton's method, kept within the bracket,
// ends on the piece of the root. The last call of f is for the result.
func rootOf(lo, hi float64, f func(x float64) (value, slope float64)) float64 {
	if value, _ := f(lo); value <= 0 {
		return lo
	}
	x := hi
	value, slope := f(x)
	if value >= 0 {
		return hi
	}
	return newton(lo, hi, x, value, slope, f)
}

// rootFrom is rootOf between 0, where f is known to be positive, and hi, from a guess within.
func rootFrom(guess, hi float64, f func(x float64) (value, slope float64)) float64 {
	x := min(guess, hi)
	value, slope := f(x)
	if value > 0 && x < hi && !(x-value/slope < hi) { // hi has a sign once it is looked at
		x = hi
		value, slope = f(x)
	}
	if value >= 0 && x == hi {
		return hi
	}
	return newton(0, hi, x, value, slope, f)
}

// newton finds the root between lo and hi from x, where f has a value and slope.
func newton(lo, hi, x, value, slope float64, f func(x float64) (value, slope float64)) float64 {
	for range 100 {
		if value > 0 {
			lo = x
		} else {
			hi = x
		}
		next := x - value/slope
		if math.Abs(next-x) <= 1e-16*math.Abs(x) {
			break
		}
		if !(next > lo && next < hi) {
			next = 0.5 * (lo + hi)
		}
		x = next
		value, slope = f(x)
	}
	return x
}

// allowance is how far, as a part of the sum of the weights, dual variables may be outside of what the loss allows by
// rounding.
const allowance = 1e-14

// allows reports whether dual variables of class y are what the loss allows, as far as that is seen without the
// projection: it is for none, and for one bound of all rivals or of each order of them.
func (r *rule) allows(alpha []float64, y int, s *scratch) bool {
	own, slack := alpha[y], allowance*r.total
	if r.single {
		alpha[y] = 0 // it is put back: no branch for it
		even, odd, most := 0.0, 0.0, int64(0)
		for c := 0; c+1 < len(alpha); c += 2 {
			p, q := alpha[c], alpha[c+1]
			most = max(most, int64(math.Float64bits(p)), int64(math.Float64bits(q))) // 0 where all are negative, or 0
			even += p
			odd += q
		}
		if len(alpha)%2 > 0 {
			p := alpha[len(alpha)-1]
			most = max(most, int64(math.Float64bits(p)))
			even += p
		}
		alpha[y] = own
		return most == 0 && math.Abs(own+(even+odd)) <= slack && own <= r.total+slack
	}
	used, sum := 0, 0.0
	alpha[y] = 0
	for _, x := range alpha {
		s.a[used] = -x
		sum -= x
		used += int((math.Float64bits(x) | -math.Float64bits(x)) >> 63) // but for 0
	}
	alpha[y] = own
	switch {
	case !(math.Abs(own-sum) <= slack && sum <= r.total+slack):
		return false
	case used == 0:
		return true
	case !r.each:
		return false
	}
	largest := s.a[:used]
	sortFalling(largest)
	if largest[used-1] < 0 {
		return false
	}
	bound := slack
	sum = 0
	for j, x := range largest {
		sum += x
		if bound += r.rho[j]; sum > bound {
			return false
		}
	}
	return true
}

// sortFalling puts the largest numbers first.
func sortFalling(x []float64) {
	if len(x) > sortByInsertion {
		slices.Sort(x)
		slices.Reverse(x)
		return
	}
	for i, v := range x {
		j := i
		for ; j > 0 && x[j-1] < v; j-- {
			x[j] = x[j-1]
		}
		x[j] = v
	}
}

// project stores in alpha the nearest dual variables of class y to those given: the envelope of parameter 1 at −α
// less the costs. Both may be the same.
func (r *rule) project(alpha, given []float64, y int, s *scratch) {
	for c, x := range given {
		s.scores[c] = -x - r.delta(y, c)
	}
	r.envelope(s.v, s.scores, nil, 0, y, 1, s)
	for c, v := range s.v {
		alpha[c] = -v
	}
}
