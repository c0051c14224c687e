package solvertest

import "github.com/refitd/refitd/solver/internal/parallel"

// TestWorkers are workers that nobody calls off.
func TestWorkers(size int) parallel.Workers { return parallel.Workers{Size: size} }
