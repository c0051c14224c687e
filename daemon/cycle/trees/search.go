package trees

// search finds the best question of a level. It has the memory for it.
type search struct {
	sums      []float64 // leaves × (m+1), of slopes
	histogram []float64 // leaves × bins × (m+1)
	gains     []float64 // by bin
}

// stride is how many rows there are for each that questions are chosen on. Chosen by hand: it halves the time.
const stride = 2

// totals returns the sums of the slopes of every step-th row from first on, by leaf.
func (s *search) totals(f *Fitter, m, leaves, first, step int) []float64 {
	width := m + 1
	s.sums = resize(s.sums, leaves*width)
	clear(s.sums)
	for i := first; i < len(f.leaf); i += step {
		sum := s.sums[int(f.leaf[i])*width:]
		for c, v := range f.slopes[i*width : (i+1)*width] {
			sum[c] += v
		}
	}
	return s.sums
}

// best returns the input and the bin whose question takes the slopes best: whether a number's bin is that or a later
// one, whether a name's code is that. Without a question that gains enough the input is −1. Of equals the first counts.
func (s *search) best(f *Fitter, m, leaves, first int) (input, bin int) {
	sums, width := s.totals(f, m, leaves, first, stride), m+1
	most := leastGain
	for l := range leaves {
		most += score(sums[l*width : (l+1)*width])
	}
	input = -1
	for j, size := range f.sizes {
		s.count(f, j, width, leaves, first)
		if j < len(f.edges) {
			s.accumulate(leaves, size, width)
		}
		for b, gain := range s.scores(leaves, size, width) {
			if b > 0 && gain > most {
				most, input, bin = gain, j, b
			}
		}
	}
	return input, bin
}

// count adds up the slopes by leaf and bin of an input.
func (s *search) count(f *Fitter, input, width, leaves, first int) {
	size, bins := f.sizes[input], f.bins[input]
	s.histogram = resize(s.histogram, leaves*size*width)
	clear(s.histogram)
	if width == 2 { // the common case
		for i := first; i < len(bins); i += stride {
			at := (int(f.leaf[i])*size + int(bins[i])) * 2
			h, slope := s.histogram[at:at+2], f.slopes[2*i:2*i+2]
			h[0] += slope[0]
			h[1] += slope[1]
		}
		return
	}
	for i := first; i < len(bins); i += stride {
		at := (int(f.leaf[i])*size + int(bins[i])) * width
		h := s.histogram[at : at+width]
		for c, v := range f.slopes[i*width : (i+1)*width] {
			h[c] += v
		}
	}
}

// accumulate makes each bin that and all later ones of its leaf.
func (s *search) accumulate(leaves, size, width int) {
	for l := range leaves {
		h := s.histogram[l*size*width : (l+1)*size*width]
		for i := len(h) - width - 1; i >= 0; i-- {
			h[i] += h[i+width]
		}
	}
}

// scores returns the score of the question of each bin.
func (s *search) scores(leaves, size, width int) []float64 {
	s.gains = resize(s.gains, size)
	clear(s.gains)
	for l := range leaves {
		all, rows := s.sums[l*width:(l+1)*width], s.histogram[l*size*width:(l+1)*size*width]
		for b := range size {
			yes := rows[b*width : (b+1)*width]
			s.gains[b] += score(yes) + scoreWithout(all, yes)
		}
	}
	return s.gains
}

// score is twice what a step in a group of rows gains, by its slopes: Σ gradient² / curvature.
func score(slopes []float64) (squares float64) {
	m := len(slopes) - 1
	for _, g := range slopes[:m] {
		squares += g * g
	}
	return squares / (slopes[m] + ridge)
}

// scoreWithout is score of the rows of a group that are not in a part of it.
func scoreWithout(slopes, part []float64) (squares float64) {
	m := len(slopes) - 1
	for c, g := range slopes[:m] {
		g -= part[c]
		squares += g * g
	}
	return squares / (max(slopes[m]-part[m], 0) + ridge)
}
