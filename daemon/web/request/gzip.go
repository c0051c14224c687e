package request

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// ReadPlain is ReadAll for a body that may be compressed with gzip, by its header or by its first bytes, which begin no
// JSON. What it is decompressed to is bounded as a body is, and counts as one.
func (f *Inflight) ReadPlain() ([]byte, error) {
	body, err := f.ReadAll()
	if err != nil {
		return nil, err
	}
	switch coding := strings.ToLower(strings.TrimSpace(f.coding)); {
	case coding == "gzip" || coding == "x-gzip" || coding == "" && bytes.HasPrefix(body, gzipMagic):
		return f.gunzip(body)
	case coding != "" && coding != "identity":
		return nil, Refuse(http.StatusUnsupportedMediaType,
			"the Content-Encoding is "+strconv.Quote(f.coding)+": send gzip or none")
	}
	return body, nil
}

// gzipMagic begins every gzip stream (RFC 1952, section 2.3.1).
var gzipMagic = []byte{0x1f, 0x8b}

// gunzip returns what a gzip stream has.
func (f *Inflight) gunzip(body []byte) ([]byte, error) {
	most := f.budget.largestBody()
	in, err := gzip.NewReader(bytes.NewReader(body))
	var plain bytes.Buffer
	for err == nil {
		if plain.Available() < bytes.MinRead {
			more := max(plain.Cap(), budgetStep)
			if err := f.Grow(bodyCopies * int64(more)); err != nil {
				return nil, err
			}
			plain.Grow(more)
		}
		var n int
		n, err = in.Read(plain.AvailableBuffer()[:plain.Available()])
		plain.Write(plain.AvailableBuffer()[:n])
		if int64(plain.Len()) > most {
			return nil, tooLarge(most)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, BadRequest("the body is not a whole gzip stream: %v", err)
	}
	return plain.Bytes(), nil
}
