package task

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// InParallel runs two parts of a refit that share nothing they write, at once where it may have a second goroutine,
// else one after the other. A panic of either is raised here, once both have ended.
func (j *Task) InParallel(f, g func()) {
	workers := j.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	if workers < 2 {
		f()
		g()
		return
	}
	ended := make(chan any, 1)
	go func() {
		defer func() { ended <- withStack(recover()) }()
		g()
	}()
	defer func() {
		if v := <-ended; v != nil {
			panic(v)
		}
	}()
	f()
}

// stackedPanic is a panic of another goroutine than the one it is raised on, with the stack where it happened.
type stackedPanic struct {
	value any
	stack []byte
}

func (p *stackedPanic) String() string { return fmt.Sprint(p.value) }

// Stack returns the stack of the goroutine that panicked.
func (p *stackedPanic) Stack() []byte { return p.stack }

// withStack adds the stack to what was recovered, unless it is of yet another goroutine and has one.
func withStack(v any) any {
	if v == nil {
		return nil
	}
	if _, ok := v.(interface{ Stack() []byte }); ok {
		return v
	}
	return &stackedPanic{v, debug.Stack()}
}
