// Package report holds what the verbs of refitd print: the JSON Lines objects of the command-line contract, their text
// form for people, and the exit codes. It neither trains, reads nor measures anything.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/refitd/refitd/snapshot/format"
)

// A Number is written as null when it is not finite.
type Number = format.Number

// Some returns a pointer to v, for fields that may be absent.
func Some(v float64) *Number { n := Number(v); return &n }

// Known returns a pointer to v, nil if it is no number.
func Known(v float64) *Number {
	if math.IsNaN(v) {
		return nil
	}
	return Some(v)
}

// Numbers converts a list; nil stays nil.
func Numbers(list []float64) []Number { return format.Numbers(list) }

// Seconds returns a duration as a number of seconds.
func Seconds(d time.Duration) Number { return Number(d.Seconds()) }

// Time formats t as the contract wants it: RFC 3339 in UTC.
func Time(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// A Line is something a verb prints. WriteText prints it for people, in one or more whole lines; an object that has
// nothing to say to people prints nothing.
type Line interface {
	WriteText(w io.Writer) error
}

// Emitter writes lines to standard output, as JSON Lines or as text. It is safe for concurrent use; each line is one
// Write.
type Emitter struct {
	mu      sync.Mutex
	w       io.Writer
	json    bool
	columns func() int // of the terminal behind w; nil if w is not a terminal
	updates UpdateCount
}

// NewEmitter returns an emitter that writes JSON Lines if asJSON and text otherwise.
func NewEmitter(w io.Writer, asJSON bool) *Emitter { return &Emitter{w: w, json: asJSON} }

// Fit has text fit a terminal of so many columns, asked for at each line; 0 is no limit. Call it before Emit.
func (e *Emitter) Fit(columns func() int) { e.columns = columns }

// IsJSON reports whether the emitter writes JSON Lines.
func (e *Emitter) IsJSON() bool { return e.json }

// Emit writes one line. In JSON it is the object of line with a first field "type" of the given kind: ready, tick,
// step, version, summary, error and so on. In text, one line sums up the updates of models before what follows them.
func (e *Emitter) Emit(kind string, line Line) error {
	var b page
	if e.columns != nil {
		b.columns = e.columns()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.json {
		if v, ok := line.(Version); ok && e.updates.Add(&v) {
			return nil
		}
		if text := e.updates.Take(); text != "" {
			prose(&b, "%s\n", text)
		}
	}
	if e.json {
		object, err := json.Marshal(line)
		if err != nil {
			return fmt.Errorf("report: %s: %w", kind, err)
		}
		fmt.Fprintf(&b, `{"type":%q`, kind)
		if len(object) > len("{}") {
			b.WriteByte(',')
		}
		b.Write(object[1:])
		b.WriteByte('\n')
	} else if err := line.WriteText(&b); err != nil {
		return fmt.Errorf("report: %s: %w", kind, err)
	}
	if b.Len() == 0 {
		return nil
	}
	if _, err := e.w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("report: %s: %w", kind, err)
	}
	return nil
}

// Program ends version.
type Program struct {
	Version string `json:"version"` // of this program
	Build   string `json:"build"`   // the same with the commit and the version of Go
}

// WriteText prints the build, as --version does.
func (p Program) WriteText(w io.Writer) error { return say(w, "refitd %s\n", p.Build) }

// Empty is a summary without fields.
type Empty struct{}

// WriteText prints nothing.
func (Empty) WriteText(io.Writer) error { return nil }
