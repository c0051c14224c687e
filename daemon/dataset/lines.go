package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxLineBytes bounds one line of a file.
const maxLineBytes = 16 << 20

// errLineTooLong says that a file is not made of lines of reasonable length.
var errLineTooLong = fmt.Errorf("line longer than %d bytes", maxLineBytes)

// scanLines calls visit with each line of a file and its number from 1, without its line end; a last line without one counts. Files
// that begin with the magic of gzip are decompressed. The line is valid until visit returns. A visit that returns ErrStop ends the
// scan without an error.
func scanLines(path string, o scanOptions, visit func(line []byte, number int) error) error {
	return openFile(path, o, func(r io.Reader) error { return scanReader(r, path, visit) })
}

// scanOptions are those of every way to read a file.
type scanOptions struct {
	// progress, if not nil, is told now and then how many bytes of the file have been read, and how many there are.
	progress func(read, size int64)
}

// openFile calls f with the content of a file, decompressed if it begins with the magic of gzip. ErrStop from f is no error.
func openFile(path string, o scanOptions, f func(io.Reader) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	defer file.Close()
	counted := &countedFile{file: file, progress: o.progress}
	if st, err := file.Stat(); err == nil {
		counted.size = st.Size()
	}
	plain := bufio.NewReaderSize(counted, 256<<10)
	var r io.Reader = plain
	if magic, _ := plain.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(plain)
		if err != nil {
			return fmt.Errorf("dataset: %s: %w", path, err)
		}
		defer z.Close()
		r = z
	}
	if err := f(r); !errors.Is(err, ErrStop) {
		return err
	}
	return nil
}

// countedFile tells how far a file has been read.
type countedFile struct {
	file       *os.File
	read, size int64
	progress   func(read, size int64)
}

func (c *countedFile) Read(b []byte) (int, error) {
	n, err := c.file.Read(b)
	c.read += int64(n)
	if c.progress != nil {
		c.progress(c.read, c.size)
	}
	return n, err
}

func scanReader(r io.Reader, path string, visit func(line []byte, number int) error) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(make([]byte, 0, 256<<10), maxLineBytes)
	scanner.Split(scanLine)
	number := 0
	for scanner.Scan() {
		number++
		if err := visit(scanner.Bytes(), number); err != nil {
			return err
		}
	}
	if err := scanner.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("dataset: %s:%d: %w", path, number+1, errLineTooLong)
	} else if err != nil {
		return fmt.Errorf("dataset: read %s after line %d: %w", path, number, err)
	}
	return nil
}

// scanLine is bufio.ScanLines without the removal of a carriage return: lines are records, byte for byte.
func scanLine(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}
