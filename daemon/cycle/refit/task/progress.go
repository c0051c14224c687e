package task

// FitProgress reports how far an offline fit is. A nil FitProgress reports nothing.
type FitProgress struct {
	Report func(stage, unit string, done, most int) // FitInput.OnProgress
	// basis vectors by λ, of a path by Algorithm 1, else 1 for each λ solved
	Walked map[float64]int
	Most   int  // of them in all
	Counts bool // λ
}

// Searched reports that basis vectors are looked for, before the path of an algorithm over them.
func (p *FitProgress) Searched() {
	if p != nil {
		p.Report("basis vectors", "", 0, 0)
	}
}

// Swept reports the sweeps of the variational stage.
func (p *FitProgress) Swept(n, most int) {
	if p != nil {
		p.Report("variational stage", "sweeps", n, most)
	}
}
