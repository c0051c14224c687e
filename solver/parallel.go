package solver

import (
	"context"
	"sync/atomic"

	"github.com/refitd/refitd/solver/internal/parallel"
)

// A crew is the goroutines that share the passes over the rows, and the context that calls them off. It lives as long as one call of an
// exported function.
type crew struct {
	ctx  context.Context
	size int
}

// blocks calls f for the consecutive ranges [lo, hi) of at most size indices that cover [0, n) and returns when all calls have. Range b
// starts at b·size; worker is in [0, crew.size) and no two calls with the same worker overlap, so it may index scratch memory. Which worker
// gets which range is not fixed: a reduction keeps one partial result per range and adds them in order, so that it does not depend on
// the number of workers. Once the context is done no further range is begun: whoever uses the result asks the context first.
func (c crew) blocks(n, size int, f func(worker, b, lo, hi int)) {
	count := (n + size - 1) / size
	workers := min(c.size, count)
	if workers <= 1 {
		for b := 0; b < count && c.ctx.Err() == nil; b++ {
			f(0, b, b*size, min(n, (b+1)*size))
		}
		return
	}
	var next atomic.Int64
	var running parallel.Group
	for w := range workers {
		running.Go(func() {
			for b := int(next.Add(1)) - 1; b < count && c.ctx.Err() == nil; b = int(next.Add(1)) - 1 {
				f(w, b, b*size, min(n, (b+1)*size))
			}
		})
	}
	running.Wait()
}

// sumInto adds the partial results of equal length to dst in order. A block that was called off has no result.
func sumInto(dst []float64, partials [][]float64) {
	for _, part := range partials {
		for i := range min(len(dst), len(part)) {
			dst[i] += part[i]
		}
	}
}
