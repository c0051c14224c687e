package report

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// Exit codes of the command.
const (
	ExitDone   = 0 // done, also after SIGINT and SIGTERM
	ExitNo     = 1 // the answer is no
	ExitUsage  = 2 // usage, configuration or input file
	ExitBroker = 3 // broker unreachable, or it refused us
	ExitHalted = 4 // a partition halted, an operator must decide
	ExitState  = 5 // state in use or damaged, or disk full
	ExitModel  = 6 // no model
)

var exitNames = [...]string{"done", "no", "usage", "broker", "halted", "state", "no_model"}

// ExitError is an error that decides the exit code and says where the trouble is. A field that does not apply is empty
// or nil.
type ExitError struct {
	Code      int // an Exit constant
	Err       error
	Key       string // configuration key or flag
	Topic     string
	Partition *int32
	Offset    *int64
	Path      string
	Reported  bool // the verb's own summary says it all: nothing more is printed
}

// Error returns the text of the cause.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return "exit code " + strconv.Itoa(e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// Exit wraps err with an exit code.
func Exit(code int, err error) *ExitError { return &ExitError{Code: code, Err: err} }

// Exitf is Exit with a formatted text; %w wraps.
func Exitf(code int, format string, args ...any) *ExitError {
	return Exit(code, fmt.Errorf(format, args...))
}

// CodeOf returns the exit code of an error: 0 for nil, and ExitNo for one that no ExitError wraps.
func CodeOf(err error) int {
	if err == nil {
		return ExitDone
	}
	if e, ok := errors.AsType[*ExitError](err); ok {
		return e.Code
	}
	return ExitNo
}

// CodeNamed returns the exit code of that name in an Error, and ExitNo for another name.
func CodeNamed(name string) int {
	if code := slices.Index(exitNames[:], name); code >= 0 {
		return code
	}
	return ExitNo
}

// Error is the last line of a verb that failed.
type Error struct {
	Code      string `json:"code"`                // name of the exit code: no, usage, broker, halted, state, no_model
	Message   string `json:"message"`             // for people
	Key       string `json:"key,omitempty"`       // configuration key or flag at fault
	Topic     string `json:"topic,omitempty"`     // where it happened
	Partition *int32 `json:"partition,omitempty"` // where it happened
	Offset    *int64 `json:"offset,omitempty"`    // where it happened
	Path      string `json:"path,omitempty"`      // file or directory at fault
}

// ErrorOf returns the line for an error.
func ErrorOf(err error) Error {
	out := Error{Code: exitNames[CodeOf(err)], Message: WithoutPackages(err.Error())}
	if e, ok := errors.AsType[*ExitError](err); ok {
		out.Key, out.Topic, out.Partition, out.Offset, out.Path = e.Key, e.Topic, e.Partition, e.Offset, e.Path
	}
	return out
}

// WriteText prints the message.
func (e Error) WriteText(w io.Writer) error {
	return say(w, "refitd: %s\n", e.Message)
}
