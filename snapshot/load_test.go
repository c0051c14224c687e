package snapshot

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// slowVocabulary is decodeVocabulary by encoding/json alone.
func slowVocabulary(fields []string, b []byte) ([][]string, error) {
	if !utf8.Valid(b) {
		return nil, ErrFormat
	}
	names, f := make([][]string, len(fields)), 0
	for len(b) > 0 {
		line, rest, ok := bytes.Cut(b, []byte{'\n'})
		b = rest
		var pair []string
		if err := json.Unmarshal(line, &pair); err != nil || !ok || len(pair) != 2 {
			return nil, ErrFormat
		}
		for f < len(fields) && fields[f] != pair[0] {
			f++
		}
		if f == len(fields) || !bytes.HasPrefix(line, []byte(`["`+fields[f]+`","`)) {
			return nil, ErrFormat
		}
		names[f] = append(names[f], pair[1])
	}
	return names, nil
}

// TestVocabularyAgainstJSON: lines sound and damaged are taken and refused as a reader without shortcuts does it.
func TestVocabularyAgainstJSON(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	c := testContents(small)
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
		b, err := encodeVocabulary(c)
		must(t, err)
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
		err = decodeVocabulary(c, b)
		if (err == nil) != (refused == nil) || err != nil && !errors.Is(err, ErrFormat) {
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
	for _, s := range shapes {
		want := testContents(s)
		b, err := encodeTensors(want)
		must(t, err)
		buffer := make([]byte, len(b)+8)
		for shift := range 8 {
			at := buffer[shift : shift+len(b)]
			copy(at, b)
			got := &Contents{
				Schema:      want.Schema,
				NumFeatures: want.NumFeatures,
				NumOutputs:  want.NumOutputs,
				NumBasis:    want.NumBasis,
			}
			must(t, decodeTensors(got, at))
			for i, pair := range [][2][]float64{{got.Basis, want.Basis}, {got.Weights, want.Weights}, {got.Linear, want.Linear},
				{got.Bias, want.Bias}} {
				if !slices.Equal(pair[0], pair[1]) || (pair[0] == nil) != (pair[1] == nil) {
					t.Errorf("%s, shifted by %d: list %d is %v, want %v", s, shift, i, pair[0], pair[1])
				}
			}
		}
	}
}

func TestInPlace(t *testing.T) {
	b := binary.NativeEndian.AppendUint64(make([]byte, 8), math.Float64bits(1.5))
	if got := inPlace(b[8:], 1, F64); binary.NativeEndian.Uint16([]byte{1, 0}) == 1 &&
		(len(got) != 1 || cap(got) != 1 || got[0] != 1.5) {
		t.Errorf("an aligned number: %v", got)
	}
	if got := inPlace(b[1:], 1, F64); got != nil {
		t.Errorf("a number at an odd address: %v", got)
	}
}

func TestNotFinite(t *testing.T) {
	for n := range 14 {
		values := make([]float64, n)
		for i := range values {
			values[i] = math.MaxFloat64
		}
		if at := notFinite(values); at != -1 {
			t.Errorf("%v: position %d", values, at)
		}
		for i := range values {
			for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				values[i] = v
				if at := notFinite(values); at != i {
					t.Errorf("%v: position %d, want %d", values, at, i)
				}
			}
			values[i] = -math.MaxFloat64
		}
	}
}

// Of several files that are not sound the first is named, whichever goroutine was faster; and what is not sound is
// handed to nobody.
func TestReadFilesNamesTheFirst(t *testing.T) {
	manifest, files, err := encodeVersion("m", testContents(small))
	must(t, err)
	for range 50 {
		var used [3]bool
		use := [3]func([]byte) error{}
		for i := range use {
			use[i] = func([]byte) error {
				used[i] = true
				return nil
			}
		}
		err := readFiles(func(name string, _ int64) ([]byte, error) {
			for _, f := range files {
				if f.name == name && name != vocabularyFile {
					b := bytes.Clone(f.content)
					b[len(b)-1] ^= 1
					return b, nil
				}
			}
			return nil, fs.ErrNotExist
		}, &manifest, use)
		if !errors.Is(err, ErrDigest) || !strings.Contains(err.Error(), tensorsFile) {
			t.Fatalf("error %v, want ErrDigest of %s", err, tensorsFile)
		}
		if used != [3]bool{} {
			t.Fatalf("files were used unverified: %v", used)
		}
	}
}
