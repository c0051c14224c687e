package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
)

// parquetRows reads the rows of a Parquet file. Its columns are whole numbers, numbers, text, true and false, times, dates, or lists of text or of whole
// numbers; those of another type can be there, but no field can be one of them. It is not safe for concurrent use.
type parquetRows struct {
	columns []parquetColumn
	all     []parquet.RowGroup
	groups  []parquet.RowGroup // of all, those that are to be read
	rows    parquet.Rows       // of the group before groups; nil before the first
	buffer  []parquet.Row
	ready   []parquet.Row // of buffer: those that next has not given
	line    int
	values  [][]parquet.Value // by column
}

// parquetMagic begins and ends Parquet files.
const parquetMagic = "PAR1"

const (
	parquetRowsAtOnce = 64
	// maxParquetStdin bounds a Parquet file that comes by standard input: where its columns are stands at its end.
	maxParquetStdin = 1 << 30
)

// openParquet calls f with the rows of a file; ErrStop from f is no error. progress is that of openFile.
func openParquet(path string, progress func(read, size int64), f func(*parquetRows) error) error {
	r, size, closeFile, err := openAt(path, progress)
	if err != nil {
		return err
	}
	defer closeFile()
	rows, err := newParquetRows(r, size)
	if err != nil {
		return fmt.Errorf("dataset: %s: %w", path, err)
	}
	defer func() { _ = rows.close() }() // it was read
	if err := f(rows); !errors.Is(err, ErrStop) {
		return err
	}
	return nil
}

// openAt opens a file, or takes standard input into memory.
func openAt(path string, progress func(read, size int64)) (r io.ReaderAt, size int64, closeFile func(), err error) {
	if path == Stdin {
		content, err := wholeParquet(standardInput())
		return bytes.NewReader(content), int64(len(content)), func() {}, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, nil, fmt.Errorf("dataset: %w", err)
	}
	st, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, 0, nil, fmt.Errorf("dataset: %w", err)
	}
	return &countedAt{file: file, size: st.Size(), progress: progress}, st.Size(), func() { _ = file.Close() }, nil
}

// wholeParquet reads a file that can only be read from its beginning.
func wholeParquet(r io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxParquetStdin+1))
	if err != nil {
		return nil, fmt.Errorf("dataset: standard input: %w", err)
	}
	if len(content) > maxParquetStdin {
		return nil, fmt.Errorf("dataset: a Parquet file of more than %d bytes has to be named: it is read from its end", maxParquetStdin)
	}
	return content, nil
}

// newParquetRows begins with the end of a file, where its columns are described. A damaged file is an error.
func newParquetRows(r io.ReaderAt, size int64) (rows *parquetRows, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged, or no Parquet file: %v", p)
		}
	}()
	magic := make([]byte, 4)
	if n, _ := r.ReadAt(magic, 0); isCompressed(magic[:n]) {
		return nil, errors.New("compressed as a whole, and Parquet is read from its end: decompress it; its columns have compression of their own")
	}
	file, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("damaged, or no Parquet file: %w", err)
	}
	rows = &parquetRows{groups: file.RowGroups(), buffer: make([]parquet.Row, parquetRowsAtOnce), values: make([][]parquet.Value, len(file.Schema().Columns()))}
	rows.all = rows.groups
	for _, field := range file.Root().Columns() {
		rows.columns = append(rows.columns, columnOf(field))
	}
	return rows, nil
}

// names returns the names of the columns.
func (r *parquetRows) names() []string {
	names := make([]string, len(r.columns))
	for i, c := range r.columns {
		names[i] = c.name
	}
	return names
}

// next reads the next row, whose cells can be asked for until the next call, and its number from 1. At the end the error is io.EOF.
func (r *parquetRows) next() (line int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("after row %d: the file is damaged: %v", r.line, p)
		}
	}()
	for len(r.ready) == 0 {
		if r.rows == nil {
			if len(r.groups) == 0 {
				return 0, io.EOF
			}
			r.rows, r.groups = r.groups[0].Rows(), r.groups[1:]
		}
		n, err := r.rows.ReadRows(r.buffer)
		if r.ready = r.buffer[:n]; err != nil || n == 0 {
			if err != nil && !errors.Is(err, io.EOF) {
				return 0, fmt.Errorf("after row %d: %w", r.line, err)
			}
			err := r.rows.Close() // the values of ready are copies where they are text
			if r.rows = nil; err != nil {
				return 0, fmt.Errorf("after row %d: %w", r.line, err)
			}
		}
	}
	clear(r.values)
	r.ready[0].Range(func(column int, values []parquet.Value) bool {
		r.values[column] = values
		return true
	})
	r.ready = r.ready[1:]
	r.line++
	return r.line, nil
}

// rewind lets next begin with the first row again.
func (r *parquetRows) rewind() error {
	err := r.close()
	r.groups, r.rows, r.ready, r.line = r.all, nil, nil, 0
	return err
}

func (r *parquetRows) close() error {
	if r.rows == nil {
		return nil
	}
	return r.rows.Close()
}

// countedAt reports how much of a file has been read.
type countedAt struct {
	file       *os.File
	read, size int64
	progress   func(read, size int64)
}

func (c *countedAt) ReadAt(b []byte, at int64) (int, error) {
	n, err := c.file.ReadAt(b, at)
	if c.read = min(c.read+int64(n), c.size); c.progress != nil {
		c.progress(c.read, c.size)
	}
	return n, err
}
