package convexfm

import "math"

// moveSquare moves one coordinate of a factor of the homogeneous kernel, on which the predictions of the rows in near
// depend by sign·(m + x·p)², for the values x of the column and moves x·m. It returns by what the objective fell.
func (f *factorDescent) moveSquare(p *float64, moves, values []float64, sign float64) (fall float64) {
	var first, second, third, fourth, direct float64
	if f.p.Weights == nil {
		for e, x := range values {
			d, q, near := 2*(moves[e]+x*x**p), x*x, f.near[e]
			first += near * d
			direct += near * q
			second += d * d
			third += d * q
			fourth += q * q
		}
	} else {
		for e, x := range values {
			d, q, near, w := 2*(moves[e]+x*x**p), x*x, f.near[e], f.weight[e]
			first += near * d
			direct += near * q
			second += w * d * d
			third += w * d * q
			fourth += w * q * q
		}
	}
	polynomial := quartic{
		sign*first + 2*f.lambda**p, sign*direct + 0.5*f.bound*second + f.lambda, f.bound * third, 0.5 * f.bound * fourth,
	}
	step, fall := polynomial.least()
	if !(fall > 0) {
		return 0
	}
	if further := -polynomial.at(relaxation * step); further >= 0.5*fall {
		step, fall = relaxation*step, further
	}
	for e, x := range values {
		change := sign * f.bound * step * (2*(moves[e]+x*x**p) + x*x*step)
		if f.p.Weights != nil {
			change *= f.weight[e]
		}
		f.near[e] += change
	}
	*p += step
	return fall
}

// quartic is the polynomial c[0]x + c[1]x² + c[2]x³ + c[3]x⁴ with c[3] ≥ 0.
type quartic [4]float64

func (c quartic) at(x float64) float64 { return x * (c[0] + x*(c[1]+x*(c[2]+x*c[3]))) }

// polishing is the number of Newton steps after the roots of its derivative in closed form, which lose digits where
// c[3] is small relative to the others.
const polishing = 3

// least returns where it is least and by how much it is below 0 there; 0 and 0 where rounding leaves no such place.
func (c quartic) least() (step, fall float64) {
	try := func(x float64) {
		for range polishing {
			slope, curve := c[0]+x*(2*c[1]+x*(3*c[2]+4*c[3]*x)), 2*c[1]+x*(6*c[2]+12*c[3]*x)
			if !(curve > 0) {
				break
			}
			x -= slope / curve
		}
		if value := -c.at(x); value > fall { // not of NaN
			step, fall = x, value
		}
	}
	if c[1] > 0 {
		try(-c[0] / (2 * c[1]))
	}
	if !(c[3] > 0) {
		return step, fall
	}
	// x³ + ax² + bx + e = 0, with x = t − a/3: t³ + pt + q = 0
	a, b, e := 0.75*c[2]/c[3], 0.5*c[1]/c[3], 0.25*c[0]/c[3]
	p, q := b-a*a/3, a*(2*a*a/9-b)/3+e
	if discriminant := q*q/4 + p*p*p/27; discriminant > 0 || p >= 0 {
		u := math.Cbrt(-q/2 - math.Copysign(math.Sqrt(max(0, discriminant)), q))
		t := u
		if u != 0 {
			t -= p / (3 * u)
		}
		try(t - a/3)
		return step, fall
	}
	size := math.Sqrt(-p / 3)
	angle := math.Acos(max(-1, min(1, 1.5*q/(p*size)))) / 3
	for turn := range 3 {
		try(2*size*math.Cos(angle-float64(turn)*2*math.Pi/3) - a/3)
	}
	return step, fall
}
