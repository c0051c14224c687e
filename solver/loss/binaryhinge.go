package loss

// BinarySquaredHinge is the squared hinge loss Σ_c max(1 − t_c o_c, 0)² with targets t_c = ±1, for every output
// separately. It takes no exponentials; outputs are margins, not probabilities. SquaredHinge compares classes
// instead.
type BinarySquaredHinge struct{}

func (BinarySquaredHinge) Name() string { return "binary_squared_hinge" }

// Curvature returns 2, that of an output within its margin.
func (BinarySquaredHinge) Curvature(int) float64 { return 2 }

// Eval costs O(m).
func (BinarySquaredHinge) Eval(grad, pred, target []float64) float64 {
	target = target[:len(pred)]
	value := 0.0
	for c, o := range pred {
		margin := max(1-target[c]*o, 0)
		value += margin * margin
		if grad != nil {
			grad[c] = -2 * target[c] * margin
		}
	}
	return value
}

func (BinarySquaredHinge) curveTile(l *LossTile, dst, pred, target []float64, n int) {
	for i, o := range pred[:l.m*n] {
		dst[i] = CurveFloor
		if 1-target[i]*o > 0 {
			dst[i] = 2
		}
	}
}

// Ray of ℓ*(u) = Σ_c (u_c²/4 + t_c u_c), finite where t_c u_c ≤ 0, as it is on the ray.
func (BinarySquaredHinge) Ray(_, grad, target []float64) (count int, square float64, ok bool) {
	for c, g := range grad {
		if t := target[c]; t != 1 && t != -1 {
			return 0, 0, false
		}
		square += 0.25 * g * g
	}
	return 0, square, true
}
