package parquet

import (
	"errors"
	"fmt"
	"io"
)

// Rows reads the rows of a file, of some columns.
type Rows struct {
	file    *File
	use     []bool // by column
	group   int    // that is read, from 1; 0 before the first
	left    int64  // rows of it
	readers []*reader
	values  [][]Value // by column
	absent  []bool
}

// Rows begins before the first row. Columns whose use is false are not read; nil reads all. A column of kind Other
// is never read.
func (f *File) Rows(use []bool) *Rows {
	r := &Rows{file: f, use: make([]bool, len(f.Columns)), readers: make([]*reader, len(f.Columns)),
		values: make([][]Value, len(f.Columns)), absent: make([]bool, len(f.Columns))}
	for i := range f.Columns {
		r.use[i] = f.Columns[i].leaf >= 0 && (use == nil || use[i])
	}
	return r
}

// Next reads the next row, whose values are valid until the next call. At the end the error is io.EOF.
func (r *Rows) Next() error {
	for r.left == 0 {
		if r.group == len(r.file.groups) {
			return io.EOF
		}
		if err := r.begin(); err != nil {
			return err
		}
	}
	r.left--
	for i, read := range r.readers {
		if read == nil {
			continue
		}
		var err error
		r.values[i], r.absent[i], err = read.row(r.values[i][:0])
		if err == nil && r.left == 0 {
			err = read.end()
		}
		if err != nil {
			return r.error(i, err)
		}
	}
	return nil
}

// begin begins with the next row group.
func (r *Rows) begin() error {
	g := &r.file.groups[r.group]
	r.group++
	r.left = g.rows
	for i, use := range r.use {
		if !use {
			continue
		}
		if r.readers[i] != nil {
			r.readers[i].close()
		}
		l := r.file.Columns[i].leaf
		var err error
		if r.readers[i], err = newReader(r.file, &r.file.leaves[l], &g.chunks[l], g.rows); err != nil {
			return r.error(i, err)
		}
	}
	return nil
}

func (r *Rows) error(column int, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("column %q in row group %d: %w", r.file.Columns[column].Name, r.group, err)
}

// Values returns the values of a column in the row: one of a single value, any number of a list, none where the
// row has nothing.
func (r *Rows) Values(column int) []Value { return r.values[column] }

// Absent reports whether the row has nothing in a column, rather than an empty list.
func (r *Rows) Absent(column int) bool { return !r.use[column] || r.absent[column] }

// reader reads a column of a row group.
type reader struct {
	file     *File
	leaf     *leaf
	codec    int32
	at, to   int64 // of the pages that are left
	values   int64 // of the column that no page had yet
	dict     *dictionary
	dictSize int64
	pageSize int64

	left        int // values of the page
	repetitions hybrid
	definitions hybrid
	decoder     decoder
	encoding    int32
	content     []byte // of the page, behind its levels

	ahead      bool // repetition is of a value that row has not read
	repetition uint32
}

func newReader(f *File, l *leaf, c *chunk, rows int64) (*reader, error) {
	switch {
	case c.encrypted:
		return nil, errors.New("it is encrypted: write the file without encryption")
	case c.elsewhere:
		return nil, errors.New("its values are in another file: write them into one")
	case c.values < rows || l.repetitions == 0 && c.values != rows:
		return nil, fmt.Errorf("it states %d values for %d rows", c.values, rows)
	}
	r := &reader{file: f, leaf: l, codec: c.codec, values: c.values}
	if c.values == 0 {
		return r, nil // a group without rows may have no pages
	}
	var err error
	r.at, r.to, err = f.span(c)
	return r, err
}

// close gives up the pages.
func (r *reader) close() {
	_ = r.file.hold(-r.pageSize - r.dictSize) // it takes less
	r.pageSize, r.dictSize = 0, 0
}

// row reads the values of the next row into values.
func (r *reader) row(values []Value) (_ []Value, absent bool, err error) {
	for first := true; ; first = false {
		err := r.lookAhead()
		if errors.Is(err, io.EOF) && !first {
			return values, absent, nil
		}
		if err != nil {
			return nil, false, err
		}
		if first == (r.repetition != 0) {
			if first {
				return nil, false, errors.New("a row begins within a list")
			}
			return values, absent, nil
		}
		if len(values) >= maxList {
			return nil, false, fmt.Errorf("a list has more than %d values", maxList)
		}
		r.ahead = false
		definition, err := r.definition()
		if err != nil {
			return nil, false, err
		}
		switch {
		case definition == r.leaf.definitions:
			var v Value
			if err := r.value(&v); err != nil {
				return nil, false, err
			}
			values = append(values, v)
		case r.leaf.repetitions == 0 || definition < r.leaf.present:
			absent = true
		case definition >= r.leaf.repeatedAt:
			values = append(values, Value{Null: true})
		}
		if r.left--; r.leaf.repetitions == 0 {
			return values, absent, nil
		}
	}
}

// lookAhead looks at the next value, unless that was done.
func (r *reader) lookAhead() error {
	if r.ahead {
		return nil
	}
	return r.look()
}

// look reads how the next value is related to the row before. Behind the last it returns io.EOF.
func (r *reader) look() (err error) {
	for r.left == 0 {
		if r.values == 0 {
			return io.EOF
		}
		if err := r.page(); err != nil {
			return err
		}
	}
	r.repetition = 0
	if r.leaf.repetitions > 0 {
		if r.repetition, err = r.repetitions.next(); err == nil && r.repetition > r.leaf.repetitions {
			err = errRuns
		}
	}
	r.ahead = err == nil
	return err
}

func (r *reader) definition() (uint32, error) {
	if r.leaf.definitions == 0 {
		return 0, nil
	}
	d, err := r.definitions.next()
	if err == nil && d > r.leaf.definitions {
		err = errRuns
	}
	return d, err
}

// value reads a value that is there. The decoder is made for the first one of a page: a page of nulls alone has no
// bytes.
func (r *reader) value(v *Value) (err error) {
	if r.decoder == nil {
		if r.decoder, err = r.leaf.newDecoder(r.encoding, r.content, r.dict); err != nil {
			return err
		}
	}
	return r.decoder.next(v)
}

// end returns an error unless the rows had all values.
func (r *reader) end() error {
	for r.left == 0 && r.values > 0 {
		if err := r.page(); err != nil {
			return err
		}
	}
	if r.ahead || r.left > 0 {
		return errors.New("it has more values than its row group has rows")
	}
	return nil
}

// page reads the next page of values, and the dictionary before it.
func (r *reader) page() error {
	for {
		if r.at >= r.to {
			return fmt.Errorf("its pages lack %d values", r.values)
		}
		h, begin, err := r.file.readHeader(r.at, r.to)
		if err != nil {
			return err
		}
		r.at = begin + int64(h.compressed)
		isData := h.kind == dataPage || h.kind == dataPageV2
		switch {
		case !isData && h.kind != dictionaryPage:
			continue // pages of indexes and of kinds to come hold no values
		case !h.described:
			return errors.New("a page does not state how it is written")
		case isData && int64(h.values) > r.values:
			return fmt.Errorf("its pages have more values than the %d it states", r.values)
		}
		if isData { // whose page is in memory no longer
			_ = r.file.hold(-r.pageSize) // it takes less
			r.pageSize = 0
		}
		content, err := r.file.content(&h, begin, r.codec)
		if err != nil {
			return err
		}
		if !isData {
			if err := r.readDictionary(&h, content); err != nil {
				return fmt.Errorf("its dictionary: %w", err)
			}
			continue
		}
		r.pageSize = int64(len(content))
		r.values -= int64(h.values)
		r.left = int(h.values)
		return r.levels(&h, content)
	}
}

func (r *reader) readDictionary(h *pageHeader, content []byte) (err error) {
	if r.dict != nil {
		return errors.New("it has two")
	}
	if h.encoding != encodingPlain && h.encoding != encodingPlainDictionary {
		return fmt.Errorf("the encoding %s is not supported", encodingName(h.encoding))
	}
	r.dictSize = int64(len(content))
	r.dict, err = newDictionary(r.leaf, content, int(h.values))
	return err
}

// levels begins with the levels of a page.
func (r *reader) levels(h *pageHeader, b []byte) (err error) {
	var repetitions, definitions []byte
	if h.kind == dataPageV2 {
		repetitions, b = b[:h.repetitions], b[h.repetitions:]
		definitions, b = b[:h.definitions], b[h.definitions:]
	} else {
		if repetitions, b, err = levelsOf(b, h.repetitions, r.leaf.bits); err != nil {
			return err
		}
		if definitions, b, err = levelsOf(b, h.definitions, r.leaf.definitionBits); err != nil {
			return err
		}
	}
	r.repetitions = hybrid{b: repetitions, width: r.leaf.bits}
	r.definitions = hybrid{b: definitions, width: r.leaf.definitionBits}
	r.content, r.encoding, r.decoder = b, h.encoding, nil
	return nil
}

// levelsOf cuts the levels of a page of version 1 off.
func levelsOf(b []byte, encoding int32, bits int) (levels, rest []byte, err error) {
	if bits == 0 {
		return nil, b, nil
	}
	if encoding != encodingRLE {
		return nil, nil, fmt.Errorf("levels by %s are not supported: write the file with a newer program",
			encodingName(encoding))
	}
	return prefixed(b)
}
