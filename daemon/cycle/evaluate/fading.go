package evaluate

// Fading is a mean whose terms fade.
type Fading struct{ Rate, Sum, N float64 }

func (f *Fading) Add(v float64) { f.Sum, f.N = f.Rate*f.Sum+v, f.Rate*f.N+1 }
