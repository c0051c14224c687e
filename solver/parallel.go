package solver

import (
	"context"
	"runtime"
	"sync/atomic"

	"github.com/refitd/refitd/solver/internal/parallel"
)

// workers are the goroutines that share the passes over the rows. They live as long as one call of an exported function.
type workers struct {
	size  int
	pause func()          // Settings.Yield, or nil
	done  <-chan struct{} // of the caller's context, or nil
}

// workers returns those of one call.
func (s Settings) workers(ctx context.Context) workers {
	size := s.Workers
	if size == 0 {
		size = runtime.GOMAXPROCS(0)
	}
	return workers{size, s.Yield, ctx.Done()}
}

// cancelled reports whether the caller's context is done.
func (w workers) cancelled() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// yield calls Settings.Yield and reports whether to go on: the context is not done. Loops over rows and features ask it before every block.
func (w workers) yield() bool {
	if w.pause != nil && !w.cancelled() {
		w.pause()
	}
	return !w.cancelled()
}

// blocks calls f for the consecutive ranges [lo, hi) of at most size indices that cover [0, n) and returns when all calls have. Range b
// starts at b·size; worker is in [0, w.size) and no two calls with the same worker overlap, so it may index scratch memory. Which worker
// gets which range is not fixed: a reduction keeps one partial result per range and adds them in order, so that it does not depend on
// the number of workers. Once the context is done no further range is begun: who uses the result asks cancelled first.
func (w workers) blocks(n, size int, f func(worker, b, lo, hi int)) {
	count := (n + size - 1) / size
	busy := min(w.size, count)
	if busy <= 1 {
		for b := 0; b < count && w.yield(); b++ {
			f(0, b, b*size, min(n, (b+1)*size))
		}
		return
	}
	var next atomic.Int64
	var running parallel.Group
	for worker := range busy {
		running.Go(func() {
			for b := int(next.Add(1)) - 1; b < count && w.yield(); b = int(next.Add(1)) - 1 {
				f(worker, b, b*size, min(n, (b+1)*size))
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
