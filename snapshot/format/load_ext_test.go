package format_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// slowVocabulary is DecodeVocabulary by encoding/json alone.
func slowVocabulary(fields []string, b []byte) ([][]string, error) {
	if !utf8.Valid(b) {
		return nil, disk.ErrFormat
	}
	names, f := make([][]string, len(fields)), 0
	for len(b) > 0 {
		line, rest, ok := bytes.Cut(b, []byte{'\n'})
		b = rest
		var pair []string
		if err := json.Unmarshal(line, &pair); err != nil || !ok || len(pair) != 2 {
			return nil, disk.ErrFormat
		}
		for f < len(fields) && fields[f] != pair[0] {
			f++
		}
		if f == len(fields) || !bytes.HasPrefix(line, []byte(`["`+fields[f]+`","`)) {
			return nil, disk.ErrFormat
		}
		names[f] = append(names[f], pair[1])
	}
	return names, nil
}

// TestVocabularyAgainstJSON: lines sound and damaged are taken and refused as a reader without shortcuts does it.
func TestVocabularyAgainstJSON(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	c := snapshottest.TestContents(snapshottest.Small)
	fields := c.Schema.Named()
	parts := []string{"a", "ü", "\"", "\\", "\n", "\t", "<", "日", "0", "]", ",", "[", "\u2028"}
	accepted := 0
	for range 20_000 {
		c.Vocabulary = make([][]string, len(fields))
		for f := range fields {
			for range rng.IntN(3) {
				var name strings.Builder
				for range rng.IntN(4) {
					name.WriteString(parts[rng.IntN(len(parts))])
				}
				c.Vocabulary[f] = append(c.Vocabulary[f], name.String())
			}
		}
		b, err := format.EncodeVocabulary(c)
		snapshottest.Must(t, err)
		if len(b) > 0 && rng.IntN(2) == 0 { // damage it
			switch at := rng.IntN(len(b)); rng.IntN(3) {
			case 0:
				b = slices.Delete(b, at, at+1)
			case 1:
				b[at] = "\"\\,[]\nax"[rng.IntN(8)]
			case 2:
				b = slices.Insert(b, at, "\"\\,[]\nax"[rng.IntN(8)])
			}
		}
		want, refused := slowVocabulary(fields, b)
		err = format.DecodeVocabulary(c, b)
		if (err == nil) != (refused == nil) || err != nil && !errors.Is(err, disk.ErrFormat) {
			t.Fatalf("%q: %v, want %v", b, err, refused)
		}
		if err == nil {
			accepted++
			for f := range fields {
				if !slices.Equal(c.Vocabulary[f], want[f]) {
					t.Fatalf("%q: %q, want %q", b, c.Vocabulary, want)
				}
			}
		}
	}
	if accepted < 5000 {
		t.Errorf("%d sound vocabularies only", accepted)
	}
}

// Numbers that lie in the file as the machine has them are used there, others are copied, and they are the same.
func TestTensorsInPlace(t *testing.T) {
	for _, s := range snapshottest.Shapes {
		want := snapshottest.TestContents(s)
		b, err := format.EncodeTensors(want)
		snapshottest.Must(t, err)
		buffer := make([]byte, len(b)+8)
		for shift := range 8 {
			at := buffer[shift : shift+len(b)]
			copy(at, b)
			got := &format.Contents{
				Schema:      want.Schema,
				NumFeatures: want.NumFeatures,
				NumOutputs:  want.NumOutputs,
				NumBasis:    want.NumBasis,
			}
			snapshottest.Must(t, format.DecodeTensors(got, at))
			for i, pair := range [][2][]float64{{got.Basis, want.Basis}, {got.Weights, want.Weights}, {got.Linear, want.Linear},
				{got.Bias, want.Bias}} {
				if !slices.Equal(pair[0], pair[1]) || (pair[0] == nil) != (pair[1] == nil) {
					t.Errorf("%s, shifted by %d: list %d is %v, want %v", s, shift, i, pair[0], pair[1])
				}
			}
		}
	}
}
