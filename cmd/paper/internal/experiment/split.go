package experiment

// parts are the rows of a split.
type parts struct{ train, valid, test []int }

// split cuts the permutation of 0..n−1 that numpy's RandomState(seed) gives into ⌊n/4⌋ rows to test on, ⌊n/4⌋ to
// validate on and the rest to train on, so that results can be compared row by row with those of programs that split by
// numpy.
func split(n int, seed uint32) parts {
	p := permutation(n, seed)
	quarter := n / 4
	return parts{test: p[:quarter], valid: p[quarter : 2*quarter], train: p[2*quarter:]}
}
