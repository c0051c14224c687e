package posterior

// PairOf returns the two features of a row that interact, -1 unless there are exactly two, both of value 1.
func (s *State) PairOf(index []int32, value []float64) (first, second int32) {
	first, second = -1, -1
	for e, j := range index {
		switch {
		case s.IsMainOnly(int(s.Field[j])):
		case value[e] != 1 || second >= 0:
			return -1, -1
		case first < 0:
			first = j
		default:
			second = j
		}
	}
	return first, second
}
