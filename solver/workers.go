package solver

import (
	"context"
	"runtime"

	"github.com/refitd/refitd/solver/internal/parallel"
)

// workers returns those of one call.
func (s Settings) workers(ctx context.Context) parallel.Workers {
	size := s.Workers
	if size == 0 {
		size = runtime.GOMAXPROCS(0)
	}
	return parallel.Workers{Size: size, Pause: s.Yield, Done: ctx.Done()}
}
