// Package request is what every request of the HTTP surface goes through: its connection's place, the memory that it
// may hold, its body read and decoded, and its answer or refusal. It knows no route, no model and no version.
// A Budget and Places are safe for concurrent use. What belongs to one request belongs to that request's goroutine.
package request

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Limits of a request's body.
const (
	MaxBody     = 16 << 20         // bytes, as for a batch from Kafka
	ReadTimeout = 10 * time.Second // for the whole request
)

// What a request holds, in bytes. A body is held as it was sent and again as the texts in it, so it counts twice; the
// rest is what Go takes for values however short they were written, with the slack of slices that grow.
const (
	bodyCopies  = 2
	ValueBytes  = 48  // an element of a list
	memberBytes = 96  // a name of an object, which the decoder keeps to find it again
	ObjectBytes = 256 // an object, such as a tensor
	EventBytes  = 512 // an event and its prediction, without numbers and names
	NumberBytes = 96  // a number of a prediction: as it is computed, as it is given on and in three buffers of text
	NameBytes   = 64  // a name of an answer, without its text
	NameCopies  = 4   // of its text
	budgetStep  = 4 << 10
)

// Budget bounds what requests hold at a time: bodies, what they are decoded to, and answers. It is safe for concurrent
// use.
type Budget struct {
	limit int64
	held  atomic.Int64
}

// NewBudget returns a budget of limit bytes, more than 0, of which nothing is held.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// InUse returns how many bytes requests hold now.
func (b *Budget) InUse() int64 { return b.held.Load() }

// take takes n bytes if they are free.
func (b *Budget) take(n int64) bool {
	if b.held.Add(n) > b.limit {
		b.held.Add(-n)
		return false
	}
	return true
}

// largestBody is how large a body may be.
func (b *Budget) largestBody() int64 { return min(MaxBody, b.limit/bodyCopies) }

// Inflight is the body of a request, and what the request holds of the budget. It belongs to the goroutine of the
// request.
type Inflight struct {
	io.ReadCloser // limited by the budget's largestBody
	budget        *Budget
	turn          *Turn
	length        int64  // as declared, -1 if it was not
	coding        string // its Content-Encoding
	need, held    int64
	whole         bool // it was read to its end
}

// InflightOf returns what a request holds. Only requests with a body hold something.
func InflightOf(r *http.Request) *Inflight {
	if in, ok := r.Body.(*Inflight); ok {
		return in
	}
	return &Inflight{ReadCloser: http.NoBody, budget: new(Budget), turn: new(Turn)}
}

// Grow takes n more bytes, from 0, or returns an *Error that refuses the request.
func (f *Inflight) Grow(n int64) error {
	f.need += n
	if f.need <= f.held {
		return nil
	}
	if f.need > f.budget.limit {
		return Refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf(
			"the request takes more memory than web.max_inflight_bytes, which is %d: send fewer events or values at a time",
			f.budget.limit,
		))
	}
	more := min(max(f.need-f.held, budgetStep), f.budget.limit-f.held)
	if !f.budget.take(more) {
		return errBudget
	}
	f.held += more
	return nil
}

// errBudget refuses a request for which there is no room now.
var errBudget = Busy("the requests under way hold as much memory as web.max_inflight_bytes allows")

// Shrink gives back all but n bytes.
func (f *Inflight) Shrink(n int64) {
	if n < f.held {
		f.budget.held.Add(n - f.held)
		f.held, f.need = n, n
	}
}

// ReadAll returns the body as it was sent, or an *Error that refuses the request. The connection counts as waiting for
// its client until then, as working afterwards.
func (f *Inflight) ReadAll() ([]byte, error) {
	var b bytes.Buffer
	if f.length > 0 {
		b.Grow(int(f.length) + bytes.MinRead) // or the buffer grows once more to see the end
	}
	for f.length < 0 || int64(b.Len()) < f.length {
		if f.length < 0 && b.Available() < bytes.MinRead {
			if err := f.Grow(bodyCopies * int64(max(b.Cap(), budgetStep))); err != nil {
				return nil, err
			}
			b.Grow(max(b.Cap(), budgetStep))
		}
		n, err := f.Read(b.AvailableBuffer()[:b.Available()])
		b.Write(b.AvailableBuffer()[:n])
		f.turn.Touch()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, Refuse(http.StatusRequestTimeout, fmt.Sprintf("the body did not arrive within %s", ReadTimeout))
		case errors.Is(err, io.EOF):
			f.length = int64(b.Len())
		case errors.As(err, new(*http.MaxBytesError)):
			return nil, tooLarge(f.budget.largestBody())
		case err != nil:
			return nil, BadRequest("the body cannot be read: %v", err)
		}
	}
	f.whole = true
	f.turn.Begin()
	return b.Bytes(), nil
}

// growFor takes what the values of a body take once they are decoded. What looks alike inside of texts counts, too.
func (f *Inflight) growFor(body []byte) error {
	count := func(b byte) int64 { return int64(bytes.Count(body, []byte{b})) }
	return f.Grow(ValueBytes*(count(',')+count('[')) + memberBytes*count(':') + ObjectBytes*count('{'))
}

// GrowForNames takes what the names of an answer take, or returns an *Error as Grow does.
func (f *Inflight) GrowForNames(lists ...[]string) error {
	n := int64(0)
	for _, names := range lists {
		for _, name := range names {
			n += NameBytes + NameCopies*int64(len(name))
		}
	}
	return f.Grow(n)
}

// Admit gives a request with a body its place in the budget, or returns why it is refused before anything is read.
func (b *Budget) Admit(out http.ResponseWriter, r *http.Request, t *Turn) (*Inflight, error) {
	most := b.largestBody()
	if r.ContentLength > most {
		return nil, tooLarge(most)
	}
	// The server's own writer closes the connection of a body that is too large.
	in := &Inflight{ReadCloser: http.MaxBytesReader(out, r.Body, most), budget: b, turn: t, length: r.ContentLength,
		coding: strings.Join(r.Header.Values("Content-Encoding"), ", ")}
	return in, in.Grow(bodyCopies * max(r.ContentLength, 0))
}

// tooLarge refuses a body.
func tooLarge(most int64) error {
	text := fmt.Sprintf("the body is larger than %d bytes", most)
	if most < MaxBody {
		text += ", half of web.max_inflight_bytes"
	}
	return Refuse(http.StatusRequestEntityTooLarge, text)
}

// Busy refuses a request that has to come again later, with 503.
func Busy(text string) error {
	return Refuse(http.StatusServiceUnavailable, text+": try again later")
}
