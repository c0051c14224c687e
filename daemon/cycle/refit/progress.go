package refit

import (
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
)

// begin begins a path over a number of λ.
func begin(p *task.FitProgress, m *config.Model, lambdas, maxSteps int) {
	if p == nil {
		return
	}
	basis := m.Train.MaxBasis
	if maxSteps > 0 {
		basis = min(basis, maxSteps)
	}
	p.Walked, p.Most = make(map[float64]int), lambdas*basis
	if p.Counts = m.Train.Algorithm != config.ConditionalGradient; p.Counts {
		p.Most = lambdas // others take steps until they have converged
	}
	step(p)
}

// stepped reports a step of a path.
func stepped(p *task.FitProgress, c *task.Candidate) {
	if p == nil || p.Walked == nil {
		return
	}
	p.Walked[c.Lambda] = c.Step.K
	if p.Counts {
		p.Walked[c.Lambda] = 1
	}
	step(p)
}

func step(p *task.FitProgress) {
	done, unit := 0, "basis vectors"
	for _, n := range p.Walked {
		done += n
	}
	if p.Counts {
		unit = "strengths"
	}
	p.Report("path over λ", unit, done, p.Most)
}

// bounds reports that the strengths to try are looked for: the largest is a property of the rows.
func bounds(p *task.FitProgress) {
	if p != nil {
		p.Report("strengths of the penalty", "", 0, 0)
	}
}
