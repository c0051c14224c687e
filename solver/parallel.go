package solver

import (
	"sync"
	"sync/atomic"
)

// blocks calls f for the consecutive ranges [lo, hi) of at most size indices that cover [0, n) and returns when all calls have. Range b
// starts at b·size; worker is in [0, workers) and no two calls with the same worker overlap, so it may index scratch memory. Which worker
// gets which range is not fixed: a reduction keeps one partial result per range and adds them in order, so that it does not depend on
// the number of workers.
func blocks(workers, n, size int, f func(worker, b, lo, hi int)) {
	count := (n + size - 1) / size
	if workers = min(workers, count); workers <= 1 {
		for b := range count {
			f(0, b, b*size, min(n, (b+1)*size))
		}
		return
	}
	var next atomic.Int64
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			for b := int(next.Add(1)) - 1; b < count; b = int(next.Add(1)) - 1 {
				f(w, b, b*size, min(n, (b+1)*size))
			}
		})
	}
	running.Wait()
}

// sumInto adds the partial results of equal length to dst in order.
func sumInto(dst []float64, partials [][]float64) {
	for _, part := range partials {
		for i, x := range part[:len(dst)] {
			dst[i] += x
		}
	}
}
