package mixture

import (
	"math"

	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver/ridge"
)

// How fast the pool's weights may follow change, how strongly it holds to those it has, in units of the curvature, and
// the steps of the bias that run side by side. A probability below poolLeast counts as that. Chosen by hand.
const (
	poolFade  = 0.9995
	poolRidge = 5.0
	poolLeast = 1e-4
)

// Chosen by hand.
var poolBiasSteps = []float64{0, 0.1, 0.3, 1}

// LogitPool predicts classes from the probabilities of others: a sum of their outputs with weights and a bias for each
// class, which Newton's step moves at every event (logarithmic opinion pool; Genest and Zidek 1986). It corrects what
// is too sure or not sure enough, and what all of them miss; being a part of the mixture, nothing depends on it. One
// that predicts nothing counts as the first part. O(parts²·m + parts³) an event.
type LogitPool struct {
	n         int             // parts
	ready     bool            // predict has taken up the event in hand
	logistic  bool            // independent classes, not exclusive ones
	inputs    []float64       // n × m, outputs of the parts
	weights   []float64       // n
	curvature []float64       // n × n
	factor    []float64       // n × n, scratch of the solution
	slope     []float64       // n
	mean      []float64       // n, of inputs under the prediction
	bias      [][]float64     // per step
	each      [][]float64     // probabilities per step
	experts   experts.Weights // of the bias steps, by recent loss
	mixed     []float64       // the mean probability over these
	fade      float64         // of the curvature
}

func newLogitPool(parts, outputs int, link string) *LogitPool {
	p := &LogitPool{
		n:         parts,
		logistic:  link != format.Softmax,
		experts:   experts.NewWeights(len(poolBiasSteps)),
		inputs:    make([]float64, parts*outputs),
		weights:   make([]float64, parts),
		curvature: make([]float64, parts*parts),
		factor:    make([]float64, parts*parts),
		slope:     make([]float64, parts),
		mean:      make([]float64, parts),
		mixed:     make([]float64, outputs),
		fade:      poolFade,
	}
	for range poolBiasSteps {
		p.bias, p.each = append(p.bias, make([]float64, outputs)), append(p.each, make([]float64, outputs))
	}
	p.reset()
	return p
}

// reset starts from equal weights.
func (p *LogitPool) reset() {
	clear(p.curvature)
	for i := range p.n {
		p.weights[i] = 1 / float64(p.n)
		// The ridge is about the weights as they are, not about 0: a step solves (ridge + Σ curvature)·step = slope.
		p.curvature[i*p.n+i] = poolRidge
	}
	for _, b := range p.bias {
		clear(b)
	}
}

// drop takes the weight of part i from it, and forgets what was learned of it.
func (p *LogitPool) drop(i int) {
	if p.weights[i] != 0 {
		p.leave(i)
	}
	clearCross(p.curvature, p.n, i)
	p.curvature[i*p.n+i] = poolRidge
}

// predict stores the probabilities in dst. It reports false, and stores nothing, if the first part has none.
func (p *LogitPool) predict(dst []float64, parts []part) bool {
	if p.ready = parts[0].Present; !p.ready {
		return false
	}
	m := len(dst)
	for i := range p.n {
		value := parts[i].Value
		if !parts[i].Present {
			value = parts[0].Value
		}
		for c, v := range value {
			// Bounded: a part that is wholly sure would else decide alone.
			o := math.Log(max(v, poolLeast))
			if p.logistic {
				o -= math.Log(max(1-v, poolLeast))
			}
			p.inputs[i*m+c] = o
		}
	}
	p.combine(dst)
	return true
}

// combine stores the probabilities by the inputs.
func (p *LogitPool) combine(dst []float64) {
	m := len(dst)
	p.experts.Weigh()
	clear(dst)
	for e, b := range p.bias {
		out := p.each[e]
		copy(out, b)
		for i, w := range p.weights {
			for c, o := range p.inputs[i*m : i*m+m] {
				out[c] += w * o
			}
		}
		if p.logistic {
			for c, o := range out {
				out[c] = 1 / (1 + math.Exp(-o))
			}
		} else {
			evaluate.SoftmaxTo(out, out)
		}
		for c, v := range out {
			dst[c] += p.experts.Weights[e] * v
		}
	}
	copy(p.mixed, dst)
}

// learn takes up the targets of the event that predict was called with last.
func (p *LogitPool) learn(targets []float64) {
	if !p.ready {
		return
	}
	for e, b := range p.bias {
		loss := 0.0
		for c, v := range p.each[e] {
			t := 0.0
			if targets[c] > 0 {
				t = 1
			}
			if t > 0 || p.logistic {
				loss -= math.Log(max(1-math.Abs(t-v), evaluate.LeastProbability))
			}
			// Gradient of the log-likelihood in the bias of a class: t − p, under either link.
			b[c] += poolBiasSteps[e] * (t - v)
		}
		p.experts.Add(e, loss)
	}
	p.derive(targets)
	copy(p.factor, p.curvature)
	// Online Newton step (Hazan, Agarwal and Kale 2007) with fading curvature. What is not finite starts again from
	// equal weights.
	ok := ridge.Solve(p.factor, p.slope)
	for i, s := range p.slope {
		p.weights[i] += s
		ok = ok && !math.IsNaN(p.weights[i]) && !math.IsInf(p.weights[i], 0)
	}
	if !ok {
		p.reset()
	}
}

// derive sets the slope of the log likelihood in the weights and adds the event to the curvature.
func (p *LogitPool) derive(targets []float64) {
	m := len(p.mixed)
	clear(p.slope)
	clear(p.mean)
	for i := range p.n {
		for c, o := range p.inputs[i*m : i*m+m] {
			v := p.mixed[c]
			p.mean[i] += v * o
			p.slope[i] -= v * o
			if targets[c] > 0 {
				p.slope[i] += o
			}
		}
	}
	for i := range p.n {
		for j := range i + 1 {
			h := 0.0
			for c, v := range p.mixed {
				// Curvature of −log p: E[o oᵀ] − E o E oᵀ under the softmax, Σ p(1 − p) o oᵀ for independent classes.
				product := v * p.inputs[i*m+c] * p.inputs[j*m+c]
				if p.logistic {
					product *= 1 - v
				}
				h += product
			}
			if !p.logistic {
				h -= p.mean[i] * p.mean[j]
			}
			p.curvature[i*p.n+j] = p.fade*p.curvature[i*p.n+j] + h
		}
		// The ridge fades with the rest: this keeps it at poolRidge.
		p.curvature[i*p.n+i] += (1 - p.fade) * poolRidge
	}
}
