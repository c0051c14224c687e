package margin

import (
	"slices"
	"sync"
)

// memory is what a fit takes for as long as it lasts and by row. Small fits hand it on: those of a path, and refits in
// short succession, leave less garbage.
type memory struct {
	// rows of x with their zeros, those without in their own memory; none where many entries are 0. Products are over
	// many at a time
	whole  [][]float64
	room   []float64 // of those that lack entries
	all    []int32   // rows, in order
	square []float64 // ‖x_i‖² of rows that were asked for: see squareOf
	gap    []float64 // w_i times what row i adds to the gap, at the last evaluation
	kept   struct {  // dual variables before the step, of the rows that it may change
		rows []int32
		dual []float64
	}
}

// maxReused is the number of bytes of a fit's memory up to which it is handed on: more is freed at once.
const maxReused = 8 << 20

var unused sync.Pool // of *memory

// memoryOf returns memory for n rows, without dual variables and with all squares and gaps 0.
func memoryOf(n int) memory {
	var y memory
	if given, ok := unused.Get().(*memory); ok {
		y = *given
	}
	y.whole, y.square, y.gap = y.whole[:0], sized(y.square, n), sized(y.gap, n)
	clear(y.square)
	clear(y.gap)
	for i := len(y.all); i < n; i++ {
		y.all = append(y.all, int32(i))
	}
	y.all = y.all[:n]
	y.kept.rows, y.kept.dual = y.kept.rows[:0], y.kept.dual[:0]
	return y
}

// release hands a fit's memory on. The fit is over, and nothing of what it returned is in there.
func (f *fit) release() {
	if y := f.memory; y.size() <= maxReused {
		clear(y.whole) // which keeps no problem alive
		unused.Put(&y)
	}
}

// size returns the bytes it takes.
func (y *memory) size() int {
	return 24*cap(y.whole) + 8*(cap(y.room)+cap(y.square)+cap(y.gap)+cap(y.kept.dual)) + 4*(cap(y.all)+cap(y.kept.rows))
}

// sized returns x with a length, of new memory where it has too little. Its numbers may be any.
func sized[T any](x []T, n int) []T { return slices.Grow(x[:0], n)[:n] }
