// Package parquet reads the rows of Parquet files: columns of single values and of lists, by every encoding and
// every compression but LZO. All sizes that a file states are compared with the bytes that are there, so that a
// damaged file is an error and takes no memory.
package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Magic begins and ends Parquet files.
const Magic = "PAR1"

// encryptedMagic ends files whose description of columns is encrypted.
const encryptedMagic = "PARE"

const (
	// maxFooter bounds the description of a file, which is a few hundred bytes for each column and row group.
	maxFooter = 128 << 20
	// maxHeld bounds the pages that are in memory at a time, decompressed, of all columns: the usual page has 1 MiB.
	maxHeld = 512 << 20
	// maxValue bounds one value, as lines of other files are bounded.
	maxValue = 16 << 20
	// maxList bounds the values of a list in one row. A run can state a billion of them in a few bytes.
	maxList = 1 << 20
	// A file may have anyRows, and more in as far as it has bytes for them: a row that takes a 64th of a byte says
	// nothing.
	anyRows     = 1 << 16
	rowsPerByte = 64
)

// File is a Parquet file. It is not safe for concurrent use.
type File struct {
	Columns []Column // at the top level
	NumRows int64

	r      io.ReaderAt
	size   int64
	leaves []leaf
	groups []rowGroup
	held   int64 // bytes of pages in memory
}

// rowGroup holds rows, column by column.
type rowGroup struct {
	rows   int64
	chunks []chunk // by leaf
}

// chunk is a column of a row group.
type chunk struct {
	physical                   int32
	codec                      int32
	values                     int64
	compressed                 int64
	dataOffset, dictionaryFrom int64
	elsewhere, encrypted       bool
}

// Open reads the description at the end of a file.
func Open(r io.ReaderAt, size int64) (*File, error) {
	begin, end := make([]byte, len(Magic)), make([]byte, 8)
	if size < int64(len(begin)+len(end)) {
		return nil, fmt.Errorf("no Parquet file: it has %d bytes", size)
	}
	if _, err := r.ReadAt(begin, 0); err != nil {
		return nil, err
	}
	if _, err := r.ReadAt(end, size-int64(len(end))); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch magic := string(end[4:]); {
	case magic == encryptedMagic:
		return nil, errors.New("an encrypted Parquet file: write it without encryption")
	case string(begin) != Magic:
		return nil, errors.New("no Parquet file: it does not begin with " + Magic)
	case magic != Magic:
		return nil, errors.New("it does not end with " + Magic + ": it was cut off")
	}
	length := int64(binary.LittleEndian.Uint32(end))
	if length > size-int64(len(begin)+len(end)) || length > maxFooter {
		return nil, fmt.Errorf("the description of its columns has %d bytes, the file %d", length, size)
	}
	footer := make([]byte, length)
	if _, err := r.ReadAt(footer, size-int64(len(end))-length); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	f := &File{r: r, size: size}
	var elements []element
	t := &thrift{b: footer}
	t.fields(func(id int64, kind byte) bool {
		switch {
		case id == 2 && kind == thriftList:
			t.list(func(byte) { elements = append(elements, readElement(t)) })
		case id == 3 && kind == thriftI64:
			f.NumRows = t.int()
		case id == 4 && kind == thriftList:
			t.list(func(byte) { f.groups = append(f.groups, readGroup(t)) })
		default:
			return false
		}
		return true
	})
	if t.err != nil {
		return nil, fmt.Errorf("the description of its columns: %w", t.err)
	}
	if err := f.describe(elements); err != nil {
		return nil, err
	}
	return f, f.checkGroups()
}

// checkGroups compares what row groups state with the schema and the file.
func (f *File) checkGroups() error {
	rows := int64(0)
	for i := range f.groups {
		g := &f.groups[i]
		if len(g.chunks) != len(f.leaves) {
			return fmt.Errorf("row group %d has %d columns instead of %d", i+1, len(g.chunks), len(f.leaves))
		}
		if rows += g.rows; g.rows < 0 || rows < 0 {
			return fmt.Errorf("row group %d has %d rows", i+1, g.rows)
		}
		for j := range g.chunks {
			if c := &g.chunks[j]; !c.elsewhere && !c.encrypted && c.physical != f.leaves[j].physical {
				return fmt.Errorf("row group %d: the type of column %d is not that of the schema", i+1, j+1)
			}
		}
	}
	if rows > anyRows+rowsPerByte*f.size {
		return fmt.Errorf("it states %d rows and has %d bytes", rows, f.size)
	}
	if rows != f.NumRows {
		return fmt.Errorf("its row groups have %d rows, and it states %d", rows, f.NumRows)
	}
	return nil
}

func readGroup(t *thrift) (g rowGroup) {
	t.fields(func(id int64, kind byte) bool {
		switch {
		case id == 1 && kind == thriftList:
			t.list(func(byte) { g.chunks = append(g.chunks, readChunk(t)) })
		case id == 3 && kind == thriftI64:
			g.rows = t.int()
		default:
			return false
		}
		return true
	})
	return g
}

func readChunk(t *thrift) (c chunk) {
	described := false
	t.fields(func(id int64, kind byte) bool {
		switch {
		case id == 1 && kind == thriftBinary:
			c.elsewhere = t.text() != ""
		case id == 3 && kind == thriftStruct:
			described = true
			readChunkMetadata(t, &c)
		case id == 8 && kind == thriftStruct:
			c.encrypted = true
			return false
		default:
			return false
		}
		return true
	})
	c.encrypted = c.encrypted || !described
	return c
}

func readChunkMetadata(t *thrift, c *chunk) {
	t.fields(func(id int64, kind byte) bool {
		switch {
		case id == 1 && kind == thriftI32:
			c.physical = t.int32()
		case id == 4 && kind == thriftI32:
			c.codec = t.int32()
		case id == 5 && kind == thriftI64:
			c.values = t.int()
		case id == 7 && kind == thriftI64:
			c.compressed = t.int()
		case id == 9 && kind == thriftI64:
			c.dataOffset = t.int()
		case id == 11 && kind == thriftI64:
			c.dictionaryFrom = t.int()
		default:
			return false
		}
		return true
	})
}

// span returns where the pages of a chunk are.
func (f *File) span(c *chunk) (from, to int64, err error) {
	from = c.dataOffset
	if d := c.dictionaryFrom; d > 0 && d < from {
		from = d
	}
	if from < int64(len(Magic)) || c.compressed < 0 || from > f.size || c.compressed > f.size-from {
		return 0, 0, fmt.Errorf("%d bytes at %d are not in the file, which has %d", c.compressed, from, f.size)
	}
	return from, from + c.compressed, nil
}

// hold counts n bytes more in memory, or fewer where n is negative.
func (f *File) hold(n int64) error {
	if f.held+n > maxHeld {
		return fmt.Errorf("the pages that are open at a time take more than %d MiB: "+
			"write the file with smaller pages or row groups", maxHeld>>20)
	}
	f.held += n
	return nil
}
