package dataset

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"sync"
)

// Detect returns the format of a file by its first line that is not empty: CSV unless it begins as another. Of
// standard input that line is looked at and read again by what reads the events.
func Detect(path string) (format Format, err error) {
	if path == Stdin {
		format, _ = DetectReader(standardInput())
		return format, nil
	}
	asIs := func(r *bufio.Reader) (io.Reader, error) { return r, nil }
	err = openFile(path, nil, asIs, func(r io.Reader) error {
		format, _ = DetectReader(r.(*bufio.Reader))
		return nil
	})
	return format, err
}

// DetectReader is Detect for a stream, whose first line it returns without the white space around it. It looks at what
// the buffer of r can hold, decompressed if need be, waits for no more than that line, and leaves r where it is.
func DetectReader(r *bufio.Reader) (format Format, first []byte) {
	if first = peekLine(r); len(first) == 0 {
		return CSV, nil
	}
	return formatOf(first), first
}

// peekLine returns the first line of r that is not empty, or what the buffer of r can hold of it, without the white
// space around it. It waits for no more.
func peekLine(r *bufio.Reader) []byte {
	for n := 1; ; n = r.Buffered() + 1 {
		_, err := r.Peek(n)
		begin, _ := r.Peek(r.Buffered())
		if line, whole := firstLine(begin); whole || err != nil { // the end, or the buffer is full
			return line
		}
	}
}

// firstLine returns the first line that is not empty of what a stream begins with, and whether its end is seen.
func firstLine(begin []byte) (line []byte, whole bool) {
	if _, wide := utf16Order(begin); wide || isCompressed(begin) || bytes.HasPrefix(begin, []byte(byteOrderMark)) {
		plain, err := Text(bufio.NewReader(bytes.NewReader(begin)))
		if err != nil {
			return nil, false
		}
		begin, _ = io.ReadAll(io.LimitReader(plain, detectBytes)) // up to where it is cut off
	}
	if returns, _ := endsInReturn(begin); returns {
		begin = bytes.Clone(begin)
		withFeeds(begin)
	}
	for whole = true; whole && len(line) == 0; {
		line, begin, whole = bytes.Cut(begin, []byte{'\n'})
		line = bytes.TrimSpace(line)
	}
	return line, whole
}

// detectBytes is how much of a stream is looked at for its format, and the buffer of a file.
const detectBytes = 256 << 10

// input is standard input as far as its beginning was looked at: what it holds of the file is read again by openFile.
var input struct {
	sync.Mutex
	file *os.File
	r    *bufio.Reader
}

// standardInput returns the one reader of standard input.
func standardInput() *bufio.Reader {
	input.Lock()
	defer input.Unlock()
	if input.file != os.Stdin {
		input.file, input.r = os.Stdin, bufio.NewReaderSize(os.Stdin, detectBytes)
	}
	return input.r
}
