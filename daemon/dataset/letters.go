package dataset

import (
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/transform"
)

// letters makes text of Windows-1252, as spreadsheets write it in western Europe, UTF-8. The first letter beyond ASCII
// decides: if it is UTF-8, the text is left as it is, whatever follows. Else what is UTF-8 behind it stays so: the
// first may be half of a letter, where a program cut a text. Latin-1 is read so, too.
type letters struct {
	decided, isWindows bool
}

// Reset implements transform.Transformer.
func (l *letters) Reset() { *l = letters{} }

// Transform implements transform.Transformer.
func (l *letters) Transform(dst, src []byte, atEOF bool) (written, read int, err error) {
	for read < len(src) {
		if l.decided && !l.isWindows {
			n := copy(dst[written:], src[read:])
			written, read = written+n, read+n
			if read < len(src) {
				return written, read, transform.ErrShortDst
			}
			return written, read, nil
		}
		if n := copyASCII(dst[written:], src[read:]); n > 0 {
			written, read = written+n, read+n
			continue
		}
		b := src[read]
		if b >= utf8.RuneSelf && !utf8.FullRune(src[read:]) && !atEOF {
			return written, read, transform.ErrShortSrc
		}
		_, size := utf8.DecodeRune(src[read:])
		if b >= utf8.RuneSelf && !l.decided {
			l.decided, l.isWindows = true, size == 1 && isLetter(b)
			continue
		}
		if written+utf8.UTFMax > len(dst) {
			return written, read, transform.ErrShortDst
		}
		if size > 1 {
			written += copy(dst[written:], src[read:read+size])
			read += size
			continue
		}
		if charmap.Windows1252.DecodeByte(b) == utf8.RuneError {
			dst[written] = b // what Windows-1252 does not have stays no UTF-8
			written++
		} else {
			written += utf8.EncodeRune(dst[written:], charmap.Windows1252.DecodeByte(b))
		}
		read++
	}
	return written, read, nil
}

// copyASCII copies what src begins with that is ASCII, as far as dst has room for it and for a rune behind it.
func copyASCII(dst, src []byte) int {
	src = src[:max(0, min(len(src), len(dst)-utf8.UTFMax))]
	for i, b := range src {
		if b >= utf8.RuneSelf {
			return copy(dst, src[:i])
		}
	}
	return copy(dst, src)
}

// isLetter reports whether a byte is one that text in Windows-1252 has. Its last two letters are rare, and frequent in
// what is no text.
func isLetter(b byte) bool { return b < 0xfe && charmap.Windows1252.DecodeByte(b) != utf8.RuneError }
