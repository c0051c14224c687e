package task

// FitProgress tells how far an offline fit is. The nil one tells nothing.
type FitProgress struct {
	Tell func(stage, unit string, done, most int) // FitInput.OnProgress
	// basis vectors by λ, of a path by Algorithm 1, else 1 for each λ solved
	Walked map[float64]int
	Most   int  // of them in all
	Counts bool // λ
}

// Searched tells that basis vectors are looked for, before the path of an algorithm over them.
func (p *FitProgress) Searched() {
	if p != nil {
		p.Tell("basis vectors", "", 0, 0)
	}
}

// Swept tells of the sweeps of the variational stage.
func (p *FitProgress) Swept(n, most int) {
	if p != nil {
		p.Tell("variational stage", "sweeps", n, most)
	}
}
