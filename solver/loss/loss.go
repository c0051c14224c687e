package loss

// A Loss is smooth and convex in the m outputs of one example (Blondel et al. 2017, appendix A). Implementations are
// stateless and safe for concurrent use.
type Loss interface {
	// Name is the name used in configuration, flags and manifests.
	Name() string
	// Eval returns ℓ(target, pred) and stores ∂ℓ/∂pred in grad unless grad is nil. All three have length m; grad may be
	// pred. Eval is finite for every finite pred of magnitude below 1e150.
	Eval(grad, pred, target []float64) float64
	// Curvature bounds the largest eigenvalue of the Hessian in pred, of length m, from above.
	Curvature(m int) float64
}

// What a Loss may have besides, to be faster: without, it is evaluated row by row, and its second derivatives are taken
// for Curvature.
type (
	rowsLoss interface {
		evalRows(grad, pred, target, weight []float64, m int) float64 // see evalRows
	}
	tileLoss interface {
		// evalTile is LossTile.eval, or false for outputs that have to be evaluated row by row.
		evalTile(l *LossTile, grad, pred, target, weight []float64, n int) (value float64, ok bool)
	}
	curvedLoss interface {
		// curveTile is LossTile.curvature for weights of 1.
		curveTile(l *LossTile, dst, pred, target []float64, n int)
	}
)

// evalRows returns the weighted sum of the losses of consecutive rows, whose predictions and targets are row-major with
// m outputs, and stores the weighted gradients in grad unless it is nil; grad may be pred. Weight is nil for weights of
// 1.
func EvalRows(loss Loss, grad, pred, target, weight []float64, m int) float64 {
	if l, ok := loss.(rowsLoss); ok {
		return l.evalRows(grad, pred, target, weight, m)
	}
	total := 0.0
	for i := 0; i*m < len(pred); i++ {
		lo, hi := i*m, i*m+m
		var g []float64
		if grad != nil {
			g = grad[lo:hi]
		}
		value := loss.Eval(g, pred[lo:hi], target[lo:hi])
		if weight != nil {
			value *= weight[i]
			for c := range g {
				g[c] *= weight[i]
			}
		}
		total += value
	}
	return total
}
