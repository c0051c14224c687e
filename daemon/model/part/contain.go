package part

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// panicError is a panic of a model's trainer or publisher. It is the model's trouble alone: the daemon reads on, the
// champion stays, the other models do not notice.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Recovered runs step and makes an error of a panic, also of one on a goroutine of the solver, which raises it again
// where it was called.
func Recovered(step func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p := &panicError{value: v, stack: debug.Stack()}
			if worker, ok := v.(interface{ Stack() []byte }); ok {
				p.stack = worker.Stack()
			}
			err = p
		}
	}()
	return step()
}

// StackOf returns the stack of a panic, nothing for any other error.
func StackOf(err error) string {
	if p, ok := errors.AsType[*panicError](err); ok {
		return string(p.stack)
	}
	return ""
}
