package dataset

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"regexp"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/refitd/refitd/daemon/dataset/parquet"
)

// maxWindow bounds what decompression of zstd holds.
const maxWindow = 128 << 20

// What streams of gzip, zstd and bzip2 begin with.
var (
	gzipMagic  = []byte{0x1f, 0x8b}
	zstdMagic  = []byte{0x28, 0xb5, 0x2f, 0xfd}
	bzip2Magic = []byte("BZh")
)

// magicBytes is how much of a stream is looked at for what it is: interactive input may have no more in its first
// line.
const magicBytes = 4

func isCompressed(begin []byte) bool {
	return bytes.HasPrefix(begin, gzipMagic) || isZstd(begin) || bytes.HasPrefix(begin, bzip2Magic)
}

// isZstd reports whether zstd begins, maybe with a frame for others to skip, as parallel compressors write it.
func isZstd(begin []byte) bool {
	return bytes.HasPrefix(begin, zstdMagic) || len(begin) >= magicBytes && begin[0]&0xf0 == 0x50 &&
		bytes.Equal(begin[1:magicBytes], []byte{0x2a, 0x4d, 0x18})
}

// Decompress returns r as it is, unless it begins with the magic of gzip, zstd or bzip2. What is no text at all is
// refused with what it is.
func Decompress(r *bufio.Reader) (io.Reader, error) {
	magic, _ := r.Peek(magicBytes)
	packed := &packedReader{Reader: r}
	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		plain, err := gzip.NewReader(packed)
		return &expanding{plain: plain, packed: packed}, err
	case isZstd(magic):
		// A decoder without concurrency has no goroutine to end.
		plain, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		return &expanding{plain: plain, packed: packed}, err
	case bytes.HasPrefix(magic, bzip2Magic):
		return &expanding{plain: bzip2.NewReader(packed), packed: packed}, nil
	}
	return r, noText(r)
}

// Events take a tenth of their bytes compressed, and seldom less than a thirtieth. A few bytes that become a
// thousand times as many are no events.
const (
	maxExpansion = 200       // times as many bytes
	anyExpansion = 256 << 20 // bytes that any stream may become
)

// packedReader counts the bytes of a stream that were decompressed.
type packedReader struct {
	*bufio.Reader
	n int64
}

func (p *packedReader) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.n += int64(n)
	return n, err
}

func (p *packedReader) ReadByte() (byte, error) {
	b, err := p.Reader.ReadByte()
	if err == nil {
		p.n++
	}
	return b, err
}

// expanding is a decompressed stream that ends where it becomes too much.
type expanding struct {
	plain  io.Reader
	packed *packedReader
	n      int64
}

func (e *expanding) Read(b []byte) (int, error) {
	n, err := e.plain.Read(b)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("it was cut off, or has something else behind its end: %w", err)
	case errors.Is(err, gzip.ErrHeader):
		err = fmt.Errorf("it has something else behind its end: %w", err)
	case errors.Is(err, gzip.ErrChecksum):
		err = fmt.Errorf("it is damaged: %w", err)
	}
	if e.n += int64(n); e.n > anyExpansion && e.n > maxExpansion*e.packed.n {
		return 0, fmt.Errorf(
			"its first %d bytes became %d, more than %d times as many: if that is right, decompress it first",
			e.packed.n, e.n, maxExpansion)
	}
	return n, err
}

// otherFiles are what files begin with that hold no lines of text, what they are, and what to do.
var otherFiles = []struct{ magic, what, remedy string }{
	{parquet.Magic, "Parquet", "say --format parquet"},
	{"PK\x03\x04", "a ZIP archive or a workbook",
		"unpack the archive and name the file in it; save a workbook's sheet as CSV"},
	{"PK\x05\x06", "a ZIP archive without files", "name a file of events"},
	{"]\x00\x00", "compressed by lzma", "decompress it with xz -d, or compress it with gzip or zstd"},
	{"x\x01", "compressed by zlib", "decompress it, or compress it with gzip or zstd"},
	{"x\x9c", "compressed by zlib", "decompress it, or compress it with gzip or zstd"},
	{"x\xda", "compressed by zlib", "decompress it, or compress it with gzip or zstd"},
	{"LZIP\x01", "compressed by lzip", "decompress it with lzip -d, or compress it with gzip or zstd"},
	{"\xfd7zXZ", "compressed by xz", "decompress it with xz -d, or compress it with gzip or zstd"},
	{"\x04\x22\x4d\x18", "compressed by lz4", "decompress it with lz4 -d, or compress it with gzip or zstd"},
	{"\xff\x06\x00\x00sNaPpY", "compressed by snappy", "decompress it, or compress it with gzip or zstd"},
	{"\x1f\x9d", "compressed by compress", "decompress it with uncompress, or compress it with gzip or zstd"},
	{"7z\xbc\xaf", "a 7z archive", "unpack it and name the file in it"},
	{"Rar!", "a RAR archive", "unpack it and name the file in it"},
	{"PARE", "Parquet whose end is encrypted", "write it without encryption"},
	{"Obj\x01", "Avro", "write it as Parquet, CSV or JSON Lines"},
	{"ORC", "ORC", "write it as Parquet, CSV or JSON Lines"},
	{"ARROW1", "Arrow", "write it as Parquet, CSV or JSON Lines"},
	{"\xff\xff\xff\xff", "Arrow", "write it as Parquet, CSV or JSON Lines"},
	{"FEA1", "Feather", "write it as Parquet, CSV or JSON Lines"},
	{"\x89HDF", "HDF5", "write it as Parquet, CSV or JSON Lines"},
	{"\x93NUMPY", "an array of NumPy", "write it as Parquet, CSV or JSON Lines"},
	{"SQLite format 3", "a database of SQLite", "export its table as CSV"},
	{"\xd0\xcf\x11\xe0", "a workbook of an old Excel", "save its sheet as CSV"},
	{"\x80\x03", "a pickle of Python", "write it as Parquet, CSV or JSON Lines"},
	{"\x80\x04\x95", "a pickle of Python", "write it as Parquet, CSV or JSON Lines"},
	{"\x80\x05\x95", "a pickle of Python", "write it as Parquet, CSV or JSON Lines"},
	{utf32Mark, "text in UTF-32", "write it in UTF-8"},
	{"\x00\x00\xfe\xff", "text in UTF-32", "write it in UTF-8"},
}

// otherFile returns which of otherFiles begins so, negative for none. What begins with letters has to be no text: a
// column may be called ORCID.
func otherFile(begin []byte) int {
	for i := range otherFiles {
		magic := otherFiles[i].magic
		if bytes.HasPrefix(begin, []byte(magic)) && (!isText([]byte(magic)) || !isText(begin[:min(len(begin), textBytes)])) {
			return i
		}
	}
	return -1
}

// textBytes is how much of a file is looked at for whether it is text.
const textBytes = 1 << 10

// isText reports whether bytes have none that text has not: those of ASCII that control something else than lines.
func isText(b []byte) bool {
	return !bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' && r != '\t' && r != '\r' && r != '\n' })
}

// noText refuses what begins as a file of another kind. It waits for no more than magicBytes.
func noText(r *bufio.Reader) error {
	_, _ = r.Peek(magicBytes) // a short file has less
	begin, _ := r.Peek(r.Buffered())
	if i := otherFile(begin); i >= 0 {
		return fmt.Errorf("it is %s, which is not read here: %s", otherFiles[i].what, otherFiles[i].remedy)
	}
	const tarMagic, tarAt = "ustar", 257
	if len(begin) > tarAt && bytes.HasPrefix(begin[tarAt:], []byte(tarMagic)) {
		return errors.New("it is a tar archive, which is not read here: unpack it and name the file in it")
	}
	return nil
}

// Marks that some programs begin text with.
const (
	byteOrderMark = "\ufeff"
	littleMark    = "\xff\xfe"
	bigMark       = "\xfe\xff"
	utf32Mark     = "\xff\xfe\x00\x00"
)

// textKinds are what files of text begin with, in small letters, that hold no rows, what they are, and what to do.
var textKinds = []struct{ begin, what, remedy string }{
	{"<!doctype html", "a web page", "fetch the file that it leads to"},
	{"<html", "a web page", "fetch the file that it leads to"},
	{"<?xml", "XML", "write it as CSV or JSON Lines"},
	{"%pdf-", "a PDF document", "save its table as CSV"},
	{"version https://git-lfs", "a pointer of Git LFS", "git lfs pull fetches the file"},
	{"@relation ", "ARFF of Weka", "write it as CSV"},
	{"insert into ", "SQL", "export its table as CSV"},
}

// vowpalLine matches a line of Vowpal Wabbit: a label, and names behind a bar that touches its namespace. Where the bar
// touches the number before it, it separates cells, as in u.item of MovieLens.
var vowpalLine = regexp.MustCompile(
	`^[+-]?\d+(\.\d+)?( \d+(\.\d+)?)? [^ |,;\t]*\|[A-Za-z]\w*(:[\d.]+)? [^|]`)

// noRows says of the beginning of a text why it holds no rows, "" if it may.
func noRows(begin []byte) string {
	begin = bytes.TrimLeft(begin[:min(len(begin), textBytes)], "\ufeff \t\r\n")
	small := bytes.ToLower(begin)
	for _, k := range textKinds {
		if bytes.HasPrefix(small, []byte(k.begin)) {
			return fmt.Sprintf("it is %s, which is not read here: %s", k.what, k.remedy)
		}
	}
	switch {
	case vowpalLine.Match(begin):
		return "it is text of Vowpal Wabbit, which is not read here: write it as JSON Lines"
	case !isText(begin) && !utf8.Valid(trimRune(begin)):
		return "it is no text, and of no format that is known here: name a file of CSV, JSON Lines or Parquet"
	}
	return ""
}

// trimRune cuts a rune off that the end of the bytes may cut in two.
func trimRune(b []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if utf8.RuneStart(b[len(b)-n]) {
			if !utf8.FullRune(b[len(b)-n:]) {
				return b[:len(b)-n]
			}
			break
		}
	}
	return b
}

var errPackedParquet = errors.New(
	"compressed as a whole, and Parquet is read from its end: decompress it; its columns are compressed separately")

var errPackedTwice = errors.New("decompressed, it is compressed once more: decompress it once before")

// Text is Decompress for text, which may begin with a byte order mark, may be UTF-16, and may have lines that end in a
// carriage return alone: what it returns is UTF-8 without the mark, with line feeds.
func Text(r *bufio.Reader) (io.Reader, error) {
	plain, err := Decompress(r)
	if err != nil {
		return nil, err
	}
	if plain != r {
		r = bufio.NewReaderSize(plain, detectBytes)
		if begin, _ := r.Peek(magicBytes); bytes.HasPrefix(begin, []byte(parquet.Magic)) {
			return nil, errPackedParquet
		}
		if err := noText(r); err != nil {
			return nil, fmt.Errorf("decompressed: %w", err)
		}
		if begin, _ := r.Peek(magicBytes); isCompressed(begin) {
			return nil, errPackedTwice
		}
	}
	begin, _ := r.Peek(magicBytes)
	if order, ok := utf16Order(begin); ok {
		wide := transform.NewReader(r, unicode.UTF16(order, unicode.UseBOM).NewDecoder())
		return &lineFeeds{r: bufio.NewReaderSize(wide, detectBytes)}, nil
	}
	if bytes.HasPrefix(begin, []byte(byteOrderMark)) {
		_, _ = r.Discard(len(byteOrderMark)) // was peeked at
	}
	begin, _ = r.Peek(r.Buffered())
	if why := noRows(begin); why != "" {
		return nil, errors.New(why)
	}
	l := new(letters)
	return &lineFeeds{r: bufio.NewReaderSize(transform.NewReader(r, l), detectBytes), letters: l}, nil
}

// lineFeeds gives lines a line feed where they end in a carriage return alone, as spreadsheets for Macs write them. The
// end of the first line decides, which is waited for.
type lineFeeds struct {
	r                *bufio.Reader
	decided, returns bool

	letters *letters // of text that is not UTF-16
}

// encodingOf names the encoding of a text that was read, if it is not Unicode.
func encodingOf(r io.Reader) string {
	if l, ok := r.(*lineFeeds); ok && l.letters != nil && l.letters.isWindows {
		return "Windows-1252"
	}
	return ""
}

func (l *lineFeeds) Read(b []byte) (int, error) {
	for n := 1; !l.decided; n = l.r.Buffered() + 1 {
		_, err := l.r.Peek(n)
		begin, _ := l.r.Peek(l.r.Buffered())
		l.returns, l.decided = endsInReturn(begin)
		if err != nil && !l.decided { // the end, or a first line that fills the buffer
			l.returns, l.decided = endsInReturn(append(bytes.Clone(begin), ' '))
			l.decided = true
		}
	}
	n, err := l.r.Read(b)
	if l.returns {
		withFeeds(b[:n])
	}
	return n, err
}

// withFeeds makes carriage returns line feeds.
func withFeeds(b []byte) {
	for i, c := range b {
		if c == '\r' {
			b[i] = '\n'
		}
	}
}

// endsInReturn reports whether the first line ends in carriage returns without a line feed, and whether its end is
// seen. Within quotes no line ends.
func endsInReturn(begin []byte) (returns, seen bool) {
	quoted := false
	for i := 0; i < len(begin); i++ {
		switch c := begin[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\n':
			return false, true
		case c == '\r' && !quoted:
			for i < len(begin) && begin[i] == '\r' {
				i++
			}
			return i < len(begin) && begin[i] != '\n', i < len(begin)
		}
	}
	return false, false
}

// utf16Order reports whether text is UTF-16, and its order of bytes: by its mark or, without, by the zeros of its
// first two letters.
func utf16Order(begin []byte) (order unicode.Endianness, ok bool) {
	switch {
	case bytes.HasPrefix(begin, []byte(littleMark)):
		return unicode.LittleEndian, true
	case bytes.HasPrefix(begin, []byte(bigMark)):
		return unicode.BigEndian, true
	case len(begin) < magicBytes:
		return unicode.LittleEndian, false
	case begin[0] != 0 && begin[1] == 0 && begin[2] != 0 && begin[3] == 0:
		return unicode.LittleEndian, true
	case begin[0] == 0 && begin[1] != 0 && begin[2] == 0 && begin[3] != 0:
		return unicode.BigEndian, true
	}
	return unicode.LittleEndian, false
}
