package daemon

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// panicError is a panic of a model's trainer or publisher. It is the model's trouble alone: the daemon reads on, the champion stays, the
// other models do not notice.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// recovered runs step and makes an error of a panic, also of one on a goroutine of the solver, which raises it again where it was called.
func recovered(step func() error) (err error) {
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

// contain runs a step of publishing. A panic is told and counted as a version that could not be published; errors of the state pass.
func (u *unit) contain(kind string, step func() error) error {
	err := recovered(step)
	if stack := stackOf(err); stack != "" {
		u.metrics.published.WithLabelValues(u.config.Name, "failure").Inc()
		u.log.Error("publish failed", "kind", kind, "error", err, "stack", stack)
		return nil
	}
	return err
}

// onPanic tells of a record that this program's code panicked on.
func (u *unit) onPanic(topic string, partition int32, offset int64, value any) {
	u.log.Error("panic on a record", "topic", topic, "partition", partition, "offset", offset, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
}

// stackOf returns the stack of a panic, nothing for any other error.
func stackOf(err error) string {
	if p, ok := errors.AsType[*panicError](err); ok {
		return string(p.stack)
	}
	return ""
}
