package offlinetest

func Quadrant(a, b float64) string { return map[bool]string{true: "10", false: "9"}[a*b > 0] }
