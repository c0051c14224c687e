package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// maxLineBytes bounds one line of a file.
const maxLineBytes = 16 << 20

// errLineTooLong says that a file is not made of lines of reasonable length.
var errLineTooLong = fmt.Errorf("line longer than %d bytes", maxLineBytes)

// scanLines calls visit with each line of a file and its number from 1, without its line end; a last line without one counts. Files
// that begin with the magic of gzip or zstd are decompressed. The line is valid until visit returns. A visit that returns ErrStop ends the
// scan without an error. progress is that of openFile.
func scanLines(path string, progress func(read, size int64), visit func(line []byte, number int) error) error {
	return openFile(path, progress, func(r io.Reader) error { return scanReader(r, path, visit) })
}

// Stdin is the path of standard input.
const Stdin = "-"

// openFile calls f with the content of a file, decompressed if it begins with the magic of gzip or zstd. ErrStop from f is no error. progress, if not
// nil, gets now and then how many bytes of the file have been read, and how many there are.
func openFile(path string, progress func(read, size int64), f func(io.Reader) error) error {
	file, from := os.Stdin, io.Reader(nil)
	if path == Stdin {
		from = standardInput()
	} else {
		var err error
		if file, err = os.Open(path); err != nil {
			return fmt.Errorf("dataset: %w", err)
		}
		defer file.Close()
		from = file
	}
	counted := &countedFile{file: from, progress: progress}
	if st, err := file.Stat(); err == nil {
		counted.size = st.Size()
	}
	r, err := Decompress(bufio.NewReaderSize(counted, detectBytes))
	if err != nil {
		return fmt.Errorf("dataset: %s: %w", path, err)
	}
	if err := f(r); !errors.Is(err, ErrStop) {
		return err
	}
	return nil
}

// maxWindow bounds what decompression of zstd holds.
const maxWindow = 128 << 20

// What gzip and zstd streams begin with.
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

func isCompressed(begin []byte) bool {
	return bytes.HasPrefix(begin, gzipMagic) || bytes.HasPrefix(begin, zstdMagic)
}

// Decompress returns r as it is, unless it begins with the magic of gzip or zstd.
func Decompress(r *bufio.Reader) (io.Reader, error) {
	magic, _ := r.Peek(4)
	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		return gzip.NewReader(r)
	case bytes.HasPrefix(magic, zstdMagic):
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow)) // which has no goroutine to end
	}
	return r, nil
}

// countedFile reports how far a file has been read.
type countedFile struct {
	file       io.Reader
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
