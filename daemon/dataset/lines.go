package dataset

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxLineBytes bounds one line of a file.
const maxLineBytes = 16 << 20

// errLineTooLong says that a file is not made of lines of reasonable length.
var errLineTooLong = fmt.Errorf("line longer than %d bytes", maxLineBytes)

// scanLines calls visit with each line of a file and its number from 1, without its line end; a last line without
// one counts. The file is that of openText. The line is valid until visit returns. A visit that returns ErrStop
// ends the scan without an error. progress is that of openFile.
func scanLines(path string, progress func(read, size int64), visit func(line []byte, number int) error) error {
	return openText(path, progress, func(r io.Reader) error { return scanReader(r, path, visit) })
}

// scanBytes is scanLines for lines whose bytes are kept, whatever they are.
func scanBytes(path string, progress func(read, size int64), visit func(line []byte, number int) error) error {
	return openFile(path, progress, Decompress, func(r io.Reader) error { return scanReader(r, path, visit) })
}

// Stdin is the path of standard input.
const Stdin = "-"

// openText calls f with the content of a text file as Text has it.
func openText(path string, progress func(read, size int64), f func(io.Reader) error) error {
	return openFile(path, progress, Text, f)
}

// openFile calls f with the content of a file as read has it. ErrStop from f is no error. progress, if not nil,
// gets now and then how many bytes of the file have been read, and how many there are.
func openFile(path string, progress func(read, size int64), read func(*bufio.Reader) (io.Reader, error),
	f func(io.Reader) error) error {
	file, from := os.Stdin, io.Reader(nil)
	if path == Stdin {
		from = standardInput()
	} else {
		var err error
		if file, err = openNamed(path); err != nil {
			return err
		}
		defer file.Close()
		from = file
	}
	counted := &countedFile{file: from, progress: progress}
	if st, err := file.Stat(); err == nil {
		if st.IsDir() {
			return errDirectory(path)
		}
		counted.size = st.Size()
	}
	r, err := read(bufio.NewReaderSize(counted, detectBytes))
	if err != nil {
		return fmt.Errorf("dataset: %s: %w", path, err)
	}
	if err := f(r); !errors.Is(err, ErrStop) {
		return err
	}
	return nil
}

// openNamed opens a file, and says what a name is that is none of a file.
func openNamed(path string) (*os.File, error) {
	file, err := os.Open(path)
	switch {
	case err == nil:
		return file, nil
	case errors.Is(err, fs.ErrNotExist) && strings.Contains(path, "://"):
		return nil, fmt.Errorf("dataset: %s is a URL: fetch it first, as curl -O does; %w", path, err)
	case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(path, "*?["):
		return nil, fmt.Errorf("dataset: %s is a pattern, and one file is read: name it; %w", path, err)
	}
	return nil, fmt.Errorf("dataset: %w", err)
}

// errDirectory says what a directory holds, as one of part files does, or one whose parts are in directories by the
// value of a column, which is not in the files.
func errDirectory(path string) error {
	parts, _ := filepath.Glob(filepath.Join(path, "part-*"))
	if len(parts) > 0 {
		return fmt.Errorf(
			"dataset: %s is a directory of %d part files: name one of them, such as %s, or write them as one file", path,
			len(parts), parts[0])
	}
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		if column, _, ok := strings.Cut(e.Name(), "="); ok && e.IsDir() {
			return fmt.Errorf("dataset: %s is a directory with one for each value of %q, which the files in them lack: "+
				"write it as one file, with that column", path, column)
		}
	}
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(e.Name(), "_") {
			return fmt.Errorf("dataset: %s is a directory: name a file in it, such as %s", path,
				filepath.Join(path, e.Name()))
		}
	}
	return fmt.Errorf("dataset: %s is a directory: name a file in it", path)
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
