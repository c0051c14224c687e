package cycle

import "github.com/refitd/refitd/daemon/config"

// fitProgress tells how far an offline fit is. The nil one tells nothing.
type fitProgress struct {
	tell   func(stage, unit string, done, most int) // FitInput.OnProgress
	walked map[float64]int                          // basis vectors by λ, of a path by Algorithm 1, else 1 for each λ solved
	most   int                                      // of them in all
	counts bool                                     // λ
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
	if p.counts = m.Train.Algorithm != config.ConditionalGradient; p.counts {
		p.most = lambdas // others take steps until they have converged
	}
	p.step()
}

// stepped tells of a step of a path.
func (p *fitProgress) stepped(c *candidate) {
	if p == nil || p.walked == nil {
		return
	}
	p.walked[c.lambda] = c.step.K
	if p.counts {
		p.walked[c.lambda] = 1
	}
	p.step()
}

func (p *fitProgress) step() {
	done, unit := 0, "basis vectors"
	for _, n := range p.walked {
		done += n
	}
	if p.counts {
		unit = "strengths"
	}
	p.tell("path over λ", unit, done, p.most)
}

// searched tells that basis vectors are looked for, before the path of an algorithm over them.
func (p *fitProgress) searched() {
	if p != nil {
		p.tell("basis vectors", "", 0, 0)
	}
}

// bounds tells that the strengths to try are looked for: the largest is a property of the rows.
func (p *fitProgress) bounds() {
	if p != nil {
		p.tell("strengths of the penalty", "", 0, 0)
	}
}

// swept tells of the sweeps of the variational stage.
func (p *fitProgress) swept(n, most int) {
	if p != nil {
		p.tell("variational stage", "sweeps", n, most)
	}
}
