package parallel

import "sync/atomic"

// Workers are goroutines that share passes over rows or features. They live as long as one call of Blocks.
type Workers struct {
	Size  int             // goroutines at a time, ≥ 1
	Pause func()          // called before every block, by any of them; nil for nothing
	Done  <-chan struct{} // closed when no further block is to begin; nil for never
}

// Cancelled reports whether Done is closed.
func (w Workers) Cancelled() bool {
	select {
	case <-w.Done:
		return true
	default:
		return false
	}
}

// Yield calls Pause and reports whether to continue: Done is not closed. Loops over rows and features ask it before
// every block.
func (w Workers) Yield() bool {
	if w.Pause != nil && !w.Cancelled() {
		w.Pause()
	}
	return !w.Cancelled()
}

// Blocks calls f for the consecutive ranges [lo, hi) of at most size indices that cover [0, n) and returns when all
// calls have. Range b starts at b·size; worker is in [0, w.Size) and no two calls with the same worker overlap, so it
// may index scratch memory. Which worker gets which range is not fixed: a reduction keeps one partial result per range
// and adds them in order, so that it does not depend on the number of workers. Once Done is closed no further range is
// begun: who uses the result asks Cancelled first.
func (w Workers) Blocks(n, size int, f func(worker, b, lo, hi int)) {
	count := (n + size - 1) / size
	busy := min(w.Size, count)
	if busy <= 1 {
		for b := 0; b < count && w.Yield(); b++ {
			f(0, b, b*size, min(n, (b+1)*size))
		}
		return
	}
	var next atomic.Int64
	var running Group
	for worker := range busy {
		running.Go(func() {
			for b := int(next.Add(1)) - 1; b < count && w.Yield(); b = int(next.Add(1)) - 1 {
				f(worker, b, b*size, min(n, (b+1)*size))
			}
		})
	}
	running.Wait()
}

// SumInto adds the partial results of equal length to dst in order. A block that was called off has no result.
func SumInto(dst []float64, partials [][]float64) {
	for _, part := range partials {
		for i := range min(len(dst), len(part)) {
			dst[i] += part[i]
		}
	}
}
