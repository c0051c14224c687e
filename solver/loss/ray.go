package loss

import "gonum.org/v1/gonum/floats"

// RayLoss is a Loss whose conjugate is known along the ray of its gradient.
type RayLoss interface {
	// Ray stores the probabilities p_j of being wrong in wrong, which has length m, and returns how many there are and
	// the coefficient a, given a gradient of the loss. It reports false for a target that the loss is not made for.
	Ray(wrong, grad, target []float64) (count int, square float64, ok bool)
}

// Ray stores the one probability 1 − p_y, which leaves the rest of the conjugate proportional to s.
func (MultinomialLogistic) Ray(wrong, grad, target []float64) (count int, square float64, ok bool) {
	y := floats.MaxIdx(target)
	wrong[0] = min(max(-grad[y], 0), 1)
	return 1, 0, isOneHot(target, y)
}

// Ray is that of the logistic loss: outputs that are moved by a constant change the conjugate in its linear term only.
func (SmoothedHinge) Ray(wrong, grad, target []float64) (count int, square float64, ok bool) {
	return MultinomialLogistic{}.Ray(wrong, grad, target)
}

// Ray of ℓ*(u) = Σ_{c≠y} (u_c²/4 − u_c), finite where u_c ≥ 0 for c ≠ y and Σ u = 0, as they are on the ray.
func (SquaredHinge) Ray(_, grad, target []float64) (count int, square float64, ok bool) {
	y := floats.MaxIdx(target)
	for c, g := range grad {
		if c != y {
			square += 0.25 * g * g
		}
	}
	return 0, square, true
}

// Ray stores the probability of the wrong sign for every output.
func (BinaryLogistic) Ray(wrong, grad, target []float64) (count int, square float64, ok bool) {
	for c, t := range target {
		if t != 1 && t != -1 {
			return 0, 0, false
		}
		wrong[c] = min(max(-t*grad[c], 0), 1)
	}
	return len(target), 0, true
}

// Ray of ℓ*(u) = ½‖u‖² + ⟨u, target⟩.
func (Squared) Ray(_, grad, _ []float64) (count int, square float64, ok bool) {
	for _, g := range grad {
		square += 0.5 * g * g
	}
	return 0, square, true
}

func isOneHot(target []float64, y int) bool {
	for c, t := range target {
		if c == y && t != 1 || c != y && t != 0 {
			return false
		}
	}
	return true
}
