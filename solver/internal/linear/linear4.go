package linear

// gather4 does what gather does for four outputs, the number of ratings from 1 to 5, with the sums in registers: half
// the time.
func (f *LinearFit) gather4(dst, theta []float64, lo, n int) {
	x := f.p.X
	bias := (*[4]float64)(theta[len(theta)-4:])
	dst0, dst1, dst2, dst3 := dst[:n], dst[n:2*n], dst[2*n:3*n], dst[3*n:4*n]
	start := x.Start[lo : lo+n+1]
	for i := range n {
		s0, s1, s2, s3 := bias[0], bias[1], bias[2], bias[3]
		index, value := x.Index[start[i]:start[i+1]], x.Value[start[i]:start[i+1]]
		value = value[:len(index)]
		for e, j := range index {
			v, row := value[e], (*[4]float64)(theta[int(j)*4:])
			s0 += v * row[0]
			s1 += v * row[1]
			s2 += v * row[2]
			s3 += v * row[3]
		}
		dst0[i], dst1[i], dst2[i], dst3[i] = s0, s1, s2, s3
	}
}

// scatter4 does what scatter does for four outputs.
func (f *LinearFit) scatter4(sum, grad []float64, lo, n int) {
	x := f.p.X
	var b0, b1, b2, b3 float64
	grad0, grad1, grad2, grad3 := grad[:n], grad[n:2*n], grad[2*n:3*n], grad[3*n:4*n]
	start := x.Start[lo : lo+n+1]
	for i := range n {
		g0, g1, g2, g3 := grad0[i], grad1[i], grad2[i], grad3[i]
		b0 += g0
		b1 += g1
		b2 += g2
		b3 += g3
		index, value := x.Index[start[i]:start[i+1]], x.Value[start[i]:start[i+1]]
		value = value[:len(index)]
		for e, j := range index {
			v, row := value[e], (*[4]float64)(sum[int(j)*4:])
			row[0] += v * g0
			row[1] += v * g1
			row[2] += v * g2
			row[3] += v * g3
		}
	}
	bias := (*[4]float64)(sum[len(sum)-4:])
	bias[0] += b0
	bias[1] += b1
	bias[2] += b2
	bias[3] += b3
}
