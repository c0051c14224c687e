package problem

import "github.com/refitd/refitd/solver/loss"

// Passes over rows take them in blocks, each with a separate partial result: passBlocks to twice as many, so that few
// workers have nearly equal shares of them, but none of more than FitBlock rows. Both are multiples of FitTile.
const (
	FitBlock   = 16 * loss.FitTile
	passBlocks = 16
)

// RowBlock returns the number of rows of a block of n. It depends on n alone, so that results do not depend on the
// number of workers.
func RowBlock(n int) int {
	return min(FitBlock, max(1, n/(passBlocks*loss.FitTile))*loss.FitTile)
}

// NumBlocks returns how many blocks n rows make.
func NumBlocks(n int) int { return (n + RowBlock(n) - 1) / RowBlock(n) }

// Room returns a zeroed slice of the given length that reuses the memory of old.
func Room(old []float64, length int) []float64 {
	if cap(old) < length {
		return make([]float64, length)
	}
	old = old[:length]
	clear(old)
	return old
}
