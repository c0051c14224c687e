package scorer

import (
	"math"
	"slices"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// slowFold is the fold-in of one entity in dense algebra: gradients are differences of SlowOutputs between models that
// have a row for the user u1, the Gaussian posterior is solved whole at every event, for every rate.
type slowFold struct {
	c       *format.Contents
	by      *format.FoldInField
	q       int
	center  []float64
	a       [][]float64 // per rate q×q, without the prior
	b       [][]float64
	loss    []float64
	targets []float64
	known   bool // the center is a row of the model
}

func newSlowFold(c *format.Contents, center []float64) *slowFold {
	by := &c.FoldIn.Fields[0]
	s := &slowFold{
		c:       c,
		by:      by,
		q:       len(by.Precision),
		center:  center,
		loss:    make([]float64, len(by.Losses)),
		targets: make([]float64, c.NumOutputs),
	}
	for range by.Rates {
		s.a, s.b = append(s.a, make([]float64, s.q*s.q)), append(s.b, make([]float64, s.q))
	}
	return s
}

// with returns the outputs of an event of u1 whose row is u.
func (s *slowFold) with(u []float64, in *format.Input) []float64 {
	c := *s.c
	c.Linear, c.Basis = slices.Clone(c.Linear), slices.Clone(c.Basis)
	linear := c.FoldIn.NumLinear(c.NumOutputs)
	for o := range c.NumOutputs {
		c.Linear[o] = u[min(o, linear-1)]
	}
	for v, r := range c.FoldIn.Coordinates {
		c.Basis[v] = float64(s.by.Signs[v]) * c.FoldIn.Scale[v] * u[linear+r]
	}
	as := *in
	as.Categorical = append([]string{"u1"}, in.Categorical[1:]...)
	return snapshottest.SlowOutputs(&c, &as)
}

// solve returns mean and covariance of a rate.
func (s *slowFold) solve(g int) (mean, cov []float64) {
	q := s.q
	work := make([]float64, q*2*q) // (A | I)
	right := slices.Clone(s.b[g])
	for i := range q {
		copy(work[i*2*q:], s.a[g][i*q:i*q+q])
		work[i*2*q+i] += s.by.Precision[i]
		work[i*2*q+q+i] = 1
		right[i] += s.by.Precision[i] * s.center[i]
	}
	for i := range q {
		p := work[i*2*q+i]
		for j := range 2 * q {
			work[i*2*q+j] /= p
		}
		for l := range q {
			if f := work[l*2*q+i]; l != i {
				for j := range 2 * q {
					work[l*2*q+j] -= f * work[i*2*q+j]
				}
			}
		}
	}
	for i := range q {
		cov = append(cov, work[i*2*q+q:(i+1)*2*q]...)
		v := 0.0
		for j, b := range right {
			v += work[i*2*q+q+j] * b
		}
		mean = append(mean, v)
	}
	return mean, cov
}

// mixed returns the mean of the rates' means by loss.
func (s *slowFold) mixed() []float64 {
	out, total := make([]float64, s.q), 0.0
	for g, l := range s.loss {
		mean, _ := s.solve(g)
		w := math.Exp(-(s.by.Losses[g] + l) / 2)
		total += w
		for a, v := range mean {
			out[a] += w * v
		}
	}
	for a := range out {
		out[a] /= total
	}
	return out
}

func (s *slowFold) rateLoss(o []float64) float64 {
	f, total := s.c.FoldIn, 0.0
	sum := 0.0
	for _, v := range o {
		sum += math.Exp(v)
	}
	for c, t := range s.targets {
		switch f.Likelihood {
		case format.GaussianLikelihood:
			total += f.Noise[min(c, len(f.Noise)-1)] * (t - o[c]) * (t - o[c]) / float64(len(o))
		case format.LogisticLikelihood:
			total += 4 * math.Log(1+math.Exp(-t*o[c])) / float64(len(o))
		default:
			total -= 4 * t * math.Log(math.Exp(o[c])/sum)
		}
	}
	return min(total, 25)
}

func (s *slowFold) learn(m *Model, e *format.LabelledEvent) {
	if err := m.encodeTarget(s.targets, e); err != nil {
		panic(err)
	}
	f, q, weight := s.c.FoldIn, s.q, e.Weight
	if weight == 0 {
		weight = 1
	}
	now := s.mixed()
	rest, o := s.with(make([]float64, q), &e.Input), s.with(now, &e.Input)
	y := make([][]float64, len(o)) // gradient of each output
	for c := range y {
		y[c] = make([]float64, q)
	}
	for a := range q {
		unit := make([]float64, q)
		unit[a] = 1
		for c, v := range s.with(unit, &e.Input) {
			y[c][a] = v - rest[c]
		}
	}
	_, cov := s.solve(len(s.loss) / 2)
	sum := 0.0
	for _, v := range o {
		sum += math.Exp(v)
	}
	held := e.Held && s.known
	for g := range s.loss {
		if mean, _ := s.solve(g); !held {
			s.loss[g] = 0.99*s.loss[g] + s.rateLoss(s.with(mean, &e.Input))
		}
	}
	for g, rate := range s.by.Rates {
		for i := range s.a[g] {
			s.a[g][i] *= rate
		}
		for i := range s.b[g] {
			s.b[g][i] *= rate
		}
	}
	for c, t := range s.targets {
		var w, right float64
		switch f.Likelihood {
		case format.GaussianLikelihood:
			w = f.Noise[min(c, len(f.Noise)-1)]
			right = w * (t - rest[c])
			if f.Shared && c > 0 {
				panic("a shared Gaussian has one output")
			}
		case format.LogisticLikelihood:
			variance := 0.0
			for i := range q {
				for j := range q {
					variance += y[c][i] * cov[i*q+j] * y[c][j]
				}
			}
			xi := math.Sqrt(o[c]*o[c] + variance)
			w = math.Tanh(xi/2) / (2 * xi)
			right = t/2 - w*rest[c]
			if deviations := t * o[c] / math.Sqrt(variance); len(s.targets) == 1 && deviations > 2 {
				sure, p := min(1, (deviations-2)/2), 1/(1+math.Exp(-o[c]))
				right = (1-sure)*right + sure*((t+1)/2-p+p*(1-p)*(o[c]-rest[c]))
				w = (1-sure)*w + sure*p*(1-p)
			}
		default:
			p := math.Exp(o[c]) / sum
			w = p
			if xi := math.Abs(math.Log(p / (1 - p))); t == 1 {
				w = max(w, math.Tanh(xi/2)/(2*xi))
			}
			right = t - p + w*(o[c]-rest[c])
		}
		if held {
			right = 0
			for i, v := range s.center {
				right += w * y[c][i] * v
			}
		}
		for g := range s.a {
			for i := range q {
				s.b[g][i] += weight * right * y[c][i]
				for j := range q {
					s.a[g][i*q+j] += weight * w * y[c][i] * y[c][j]
				}
			}
		}
	}
}
