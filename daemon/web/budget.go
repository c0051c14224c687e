package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
)

// What a request holds, in bytes. A body is held as it was sent and again as the texts in it, so it counts twice; the
// rest is what Go takes for values however short they were written, with the slack of slices that grow.
const (
	bodyCopies  = 2
	valueBytes  = 48  // an element of a list
	memberBytes = 96  // a name of an object, which the decoder keeps to find it again
	objectBytes = 256 // an object, such as a tensor
	eventBytes  = 512 // an event and its prediction, without numbers and names
	numberBytes = 96  // a number of a prediction: as it is computed, as it is given on and in three buffers of text
	nameBytes   = 64  // a name of an answer, without its text
	nameCopies  = 4   // of its text
	budgetStep  = 4 << 10
)

// budget bounds what requests hold at a time: bodies, what they are decoded to, and answers. It is safe for concurrent
// use.
type budget struct {
	limit int64
	held  atomic.Int64
}

// take takes n bytes if they are free.
func (b *budget) take(n int64) bool {
	if b.held.Add(n) > b.limit {
		b.held.Add(-n)
		return false
	}
	return true
}

// largestBody is how large a body may be.
func (b *budget) largestBody() int64 { return min(maxBody, b.limit/bodyCopies) }

// inflight is the body of a request, and what the request holds of the budget. It belongs to the goroutine of the
// request.
type inflight struct {
	io.ReadCloser // limited by the budget's largestBody
	budget        *budget
	turn          *turn
	length        int64  // as declared, -1 if it was not
	coding        string // its Content-Encoding
	need, held    int64
	whole         bool // it was read to its end
}

// inflightOf returns what a request holds. Only requests with a body hold something.
func inflightOf(r *http.Request) *inflight {
	if in, ok := r.Body.(*inflight); ok {
		return in
	}
	return &inflight{ReadCloser: http.NoBody, budget: new(budget), turn: new(turn)}
}

// grow takes n more bytes, or returns an error that refuses the request.
func (f *inflight) grow(n int64) error {
	f.need += n
	if f.need <= f.held {
		return nil
	}
	if f.need > f.budget.limit {
		return &requestError{http.StatusRequestEntityTooLarge, fmt.Sprintf(
			"the request takes more memory than web.max_inflight_bytes, which is %d: send fewer events or values at a time",
			f.budget.limit,
		)}
	}
	more := min(max(f.need-f.held, budgetStep), f.budget.limit-f.held)
	if !f.budget.take(more) {
		return errBudget
	}
	f.held += more
	return nil
}

// errBudget refuses a request for which there is no room now.
var errBudget = busy("the requests under way hold as much memory as web.max_inflight_bytes allows")

// shrink gives back all but n bytes.
func (f *inflight) shrink(n int64) {
	if n < f.held {
		f.budget.held.Add(n - f.held)
		f.held, f.need = n, n
	}
}

// read returns the body. The connection counts as waiting for its client until then, as working afterwards.
func (f *inflight) read() ([]byte, error) {
	var b bytes.Buffer
	if f.length > 0 {
		b.Grow(int(f.length) + bytes.MinRead) // or the buffer grows once more to see the end
	}
	for f.length < 0 || int64(b.Len()) < f.length {
		if f.length < 0 && b.Available() < bytes.MinRead {
			if err := f.grow(bodyCopies * int64(max(b.Cap(), budgetStep))); err != nil {
				return nil, err
			}
			b.Grow(max(b.Cap(), budgetStep))
		}
		n, err := f.Read(b.AvailableBuffer()[:b.Available()])
		b.Write(b.AvailableBuffer()[:n])
		f.turn.touch()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, &requestError{
				http.StatusRequestTimeout,
				fmt.Sprintf("the body did not arrive within %s", readTimeout),
			}
		case errors.Is(err, io.EOF):
			f.length = int64(b.Len())
		case errors.As(err, new(*http.MaxBytesError)):
			return nil, tooLarge(f.budget.largestBody())
		case err != nil:
			return nil, badRequest("the body cannot be read: %v", err)
		}
	}
	f.whole = true
	f.turn.begin()
	return b.Bytes(), nil
}

// growFor takes what the values of a body take once they are decoded. What looks alike inside of texts counts, too.
func (f *inflight) growFor(body []byte) error {
	count := func(b byte) int64 { return int64(bytes.Count(body, []byte{b})) }
	return f.grow(valueBytes*(count(',')+count('[')) + memberBytes*count(':') + objectBytes*count('{'))
}

// growForNames takes what the names of an answer take.
func (f *inflight) growForNames(lists ...[]string) error {
	n := int64(0)
	for _, names := range lists {
		for _, name := range names {
			n += nameBytes + nameCopies*int64(len(name))
		}
	}
	return f.grow(n)
}

// admit gives a request with a body its place in the budget, or returns why it is refused before anything is read.
func (b *budget) admit(out http.ResponseWriter, r *http.Request, t *turn) (*inflight, error) {
	most := b.largestBody()
	if r.ContentLength > most {
		return nil, tooLarge(most)
	}
	// The server's own writer closes the connection of a body that is too large.
	in := &inflight{ReadCloser: http.MaxBytesReader(out, r.Body, most), budget: b, turn: t, length: r.ContentLength,
		coding: strings.Join(r.Header.Values("Content-Encoding"), ", ")}
	return in, in.grow(bodyCopies * max(r.ContentLength, 0))
}

// tooLarge refuses a body.
func tooLarge(most int64) error {
	text := fmt.Sprintf("the body is larger than %d bytes", most)
	if most < maxBody {
		text += ", half of web.max_inflight_bytes"
	}
	return &requestError{http.StatusRequestEntityTooLarge, text}
}

// busy is the error of a request that has to come again later.
func busy(text string) error {
	return &requestError{http.StatusServiceUnavailable, text + ": try again later"}
}
