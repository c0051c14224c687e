package solver

import (
	"fmt"
)

// ParsePenalty returns the penalty of that name: l1, l1l2 or l1linf.
func ParsePenalty(name string) (Penalty, error) {
	for _, p := range []Penalty{L1, L1L2, L1Linf} {
		if p.String() == name {
			return p, nil
		}
	}
	return 0, fmt.Errorf("solver: unknown penalty %q: use l1, l1l2 or l1linf", name)
}
