package event

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unicode/utf8"
)

// TestIsText: bytes of every length around words are text where UTF-8 says so.
func TestIsText(t *testing.T) {
	r := rand.New(rand.NewPCG(53, 8))
	for n := range 40 {
		for range 200 {
			b := bytes.Repeat([]byte("a"), n)
			if n > 0 && r.IntN(3) > 0 {
				b[r.IntN(n)] = byte(r.Uint32())
			}
			if n > 1 && r.IntN(3) == 0 {
				copy(b[r.IntN(n-1):], "é")
			}
			if got, want := IsText(b), utf8.Valid(b); got != want {
				t.Fatalf("%q: %v, want %v", b, got, want)
			}
		}
	}
}
