package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/refitd/refitd/daemon/dataset/parquet"
)

// parquetRows reads the rows of a Parquet file. Its columns are whole numbers, numbers, text, true and false,
// times, dates, or lists of text or of whole numbers; those of another type can be there, but no field can be one
// of them. It is not safe for concurrent use.
type parquetRows struct {
	file    *parquet.File
	columns []parquetColumn
	use     []bool        // of columns: those that are read; nil for all
	rows    *parquet.Rows // nil before the first row
	line    int
}

// maxParquetStdin bounds a Parquet file that comes by standard input: its columns are described at its end.
const maxParquetStdin = 1 << 30

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
	file, err := openNamed(path)
	if err != nil {
		return nil, 0, nil, err
	}
	st, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, 0, nil, fmt.Errorf("dataset: %w", err)
	}
	if st.IsDir() {
		_ = file.Close()
		return nil, 0, nil, errDirectory(path)
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
		return nil, fmt.Errorf("dataset: a Parquet file of more than %d bytes has to be named: it is read from its end",
			maxParquetStdin)
	}
	return content, nil
}

// newParquetRows begins with the end of a file, where its columns are described. A damaged file is an error.
func newParquetRows(r io.ReaderAt, size int64) (*parquetRows, error) {
	magic := make([]byte, len(parquet.Magic))
	if n, _ := r.ReadAt(magic, 0); isCompressed(magic[:n]) {
		return nil, errPackedParquet
	}
	file, err := parquet.Open(r, size)
	if err != nil {
		return nil, fmt.Errorf("damaged, or no Parquet file: %w", err)
	}
	rows := &parquetRows{file: file}
	for _, c := range file.Columns {
		rows.columns = append(rows.columns, parquetColumn{Column: c, name: c.Name, kind: c.Kind, isList: c.List})
	}
	return rows, distinctNames(rows.names())
}

// names returns the names of the columns.
func (r *parquetRows) names() []string {
	names := make([]string, len(r.columns))
	for i := range r.columns {
		names[i] = r.columns[i].name
	}
	return names
}

// next reads the next row, whose cells can be asked for until the next call, and its number from 1. At the end the
// error is io.EOF.
func (r *parquetRows) next() (line int, err error) {
	if r.rows == nil {
		r.rows = r.file.Rows(r.use)
	}
	if err := r.rows.Next(); errors.Is(err, io.EOF) {
		return 0, io.EOF
	} else if err != nil {
		return 0, fmt.Errorf("after row %d: %w", r.line, err)
	}
	r.line++
	return r.line, nil
}

// leftOut names the columns that no field can be, with their types.
func (r *parquetRows) leftOut() (columns []string) {
	for i := range r.columns {
		if c := &r.columns[i]; c.kind == parquet.Other && c.name != "" {
			columns = append(columns, fmt.Sprintf("%s: %s", c.name, c.What))
		}
	}
	return columns
}

// alsoUse reads some columns more, but those that are -1.
func (r *parquetRows) alsoUse(columns ...int) {
	for _, i := range columns {
		if r.use != nil && i >= 0 {
			r.use[i] = true
		}
	}
}

// rewind lets next begin with the first row again.
func (r *parquetRows) rewind() { r.rows, r.line = nil, 0 }

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
