package cycletest

func Squared(v float64) float64 { return v * v }
