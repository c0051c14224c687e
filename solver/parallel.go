package solver

import (
	"context"
	"runtime"

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

// shared are the same workers, as the packages below this one have them.
func (w workers) shared() parallel.Workers {
	return parallel.Workers{Size: w.size, Pause: w.pause, Done: w.done}
}

// cancelled reports whether the caller's context is done.
func (w workers) cancelled() bool { return w.shared().Cancelled() }

// yield calls Settings.Yield and reports whether to continue: the context is not done. Loops over rows and features
// ask it before every block.
func (w workers) yield() bool { return w.shared().Yield() }

// blocks is parallel.Workers.Blocks. Once the context is done no further range is begun: who uses the result asks cancelled first.
func (w workers) blocks(n, size int, f func(worker, b, lo, hi int)) { w.shared().Blocks(n, size, f) }

// sumInto adds the partial results of equal length to dst in order. A block that was called off has no result.
func sumInto(dst []float64, partials [][]float64) {
	for _, part := range partials {
		for i := range min(len(dst), len(part)) {
			dst[i] += part[i]
		}
	}
}
