package problem

import "testing"

// TestKernelOf checks that kind and degree name each kernel, and nothing else does.
func TestKernelOf(t *testing.T) {
	for _, k := range []Kernel{ANOVA, Homogeneous, ANOVA3, Homogeneous3} {
		if got, err := KernelOf(k.String(), k.Degree()); err != nil || got != k {
			t.Errorf("%v of degree %d: %v, %v", k, k.Degree(), got, err)
		}
	}
	for _, degree := range []int{0, 1, 4} {
		if k, err := KernelOf("anova", degree); err == nil {
			t.Errorf("degree %d: %v", degree, k)
		}
	}
}
