package experiment

import (
	"math/bits"

	"gonum.org/v1/gonum/mathext/prng"
)

// parts are the rows of a split.
type parts struct{ train, valid, test []int }

// split cuts the permutation of 0..n−1 that numpy's RandomState(seed) gives into ⌊n/4⌋ rows to test on, ⌊n/4⌋ to validate on and the
// rest to train on, so that results can be compared row by row with those of programs that split by numpy.
func split(n int, seed uint32) parts {
	p := permutation(n, seed)
	quarter := n / 4
	return parts{test: p[:quarter], valid: p[quarter : 2*quarter], train: p[2*quarter:]}
}

// permutation is RandomState(seed).permutation(n) of numpy: a Fisher–Yates shuffle from the end, by the Mersenne Twister (Matsumoto and
// Nishimura 1998), with numbers in [0, i] drawn as masked bits until one is at most i.
func permutation(n int, seed uint32) []int {
	source := prng.NewMT19937()
	source.Seed(uint64(seed))
	p := make([]int, n)
	for i := range p {
		p[i] = i
	}
	for i := n - 1; i > 0; i-- {
		mask := uint32(1)<<bits.Len32(uint32(i)) - 1
		j := source.Uint32() & mask
		for j > uint32(i) {
			j = source.Uint32() & mask
		}
		p[i], p[j] = p[j], p[i]
	}
	return p
}
