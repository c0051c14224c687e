package variational

import "testing"

func TestEntersInteraction(t *testing.T) {
	for _, c := range []struct {
		before, now []bool
		want        bool
	}{{nil, nil, false}, {nil, []bool{true}, false}, {[]bool{true, false}, []bool{true, true}, false}, {[]bool{true,
		false}, []bool{false, false}, true},
		{[]bool{true, false}, nil, true}, {[]bool{false, false}, nil, false}} {
		if got := entersInteraction(c.before, c.now); got != c.want {
			t.Errorf("from %v to %v: %t", c.before, c.now, got)
		}
	}
}
