package cycle

import "github.com/refitd/refitd/daemon/config"

// fitProgress tells how far an offline fit is. The nil one tells nothing.
type fitProgress struct {
	tell   func(stage, unit string, done, most int) // FitInput.OnProgress
	walked map[float64]int                          // basis vectors by λ, of a path by Algorithm 1, else steps
	most   int                                      // of them in all, 0 if that is not known
}

// begin begins a path over a number of λ.
func (p *fitProgress) begin(m *config.Model, lambdas, maxSteps int) {
	if p == nil {
		return
	}
	basis := m.Train.MaxBasis
	if maxSteps > 0 {
		basis = min(basis, maxSteps)
	}
	p.walked, p.most = make(map[float64]int), lambdas*basis
	if m.Train.Algorithm != config.ConditionalGradient {
		p.most = 0 // others take steps until they have converged
	}
	p.step()
}

// stepped tells of a step of a path.
func (p *fitProgress) stepped(c *candidate) {
	if p == nil || p.walked == nil {
		return
	}
	if p.most > 0 {
		p.walked[c.lambda] = c.step.K
	} else {
		p.walked[c.lambda]++
	}
	p.step()
}

func (p *fitProgress) step() {
	done, unit := 0, "basis vectors"
	for _, n := range p.walked {
		done += n
	}
	if p.most == 0 {
		unit = "steps"
	}
	p.tell("path over λ", unit, done, p.most)
}

// swept tells of the sweeps of the variational stage.
func (p *fitProgress) swept(n, most int) {
	if p != nil {
		p.tell("variational stage", "sweeps", n, most)
	}
}
