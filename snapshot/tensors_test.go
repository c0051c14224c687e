package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// F32 tensors score as F64 ones but for the rounding of the parameters, every reader sees the same rounded ones, and
// publishing them again gives the same payload digest.
func TestF32(t *testing.T) {
	for _, s := range shapes {
		dir, double, single := t.TempDir(), testContents(s), testContents(s)
		single.Tensors = F32
		store := NewStore(dir)
		_, err := store.Publish(t.Context(), "m", double)
		must(t, err)
		published, err := store.Publish(t.Context(), "m", single)
		must(t, err)
		wide, err := Open(dir, "m", Selector{Version: 1})
		must(t, err)
		narrow, err := Open(dir, "m", Selector{Version: 2})
		must(t, err)
		if w, n := wide.Manifest(), narrow.Manifest(); n.Files[0].Bytes >= w.Files[0].Bytes ||
			n.PayloadDigest == w.PayloadDigest {
			t.Errorf("%v: %d bytes, in doubles %d", s, n.Files[0].Bytes, w.Files[0].Bytes)
		}
		got := narrow.Contents()
		if got.Tensors != F32 || wide.Contents().Tensors != F64 {
			t.Errorf("%v: read as %q and %q", s, got.Tensors, wide.Contents().Tensors)
		}
		for i, v := range got.Basis {
			if v != float64(float32(double.Basis[i])) {
				t.Errorf("%v: basis[%d] is %v, published from %v", s, i, v, double.Basis[i])
			}
		}
		if digest, err := PayloadDigest(single); err != nil || digest != published.PayloadDigest {
			t.Errorf("%v: digest of the trainer's model %s, %v, want %s", s, digest, err, published.PayloadDigest)
		}
		again, err := store.Publish(t.Context(), "m", got)
		if err != nil || again.PayloadDigest != published.PayloadDigest {
			t.Errorf("%v: published again as %s, %v, want %s", s, again.PayloadDigest, err, published.PayloadDigest)
		}
		unstored, err := NewModel(single)
		must(t, err)
		rng := rand.New(rand.NewPCG(4, 5))
		for range 1000 {
			in := testInputs()[rng.IntN(4)]
			in.Numeric = []float64{40 + 30*rng.NormFloat64()}
			a, err := wide.Predict(&in)
			must(t, err)
			b, err := narrow.Predict(&in)
			must(t, err)
			c, err := unstored.Predict(&in)
			must(t, err)
			if !closeTo(b.Outputs, a.Outputs, 1e-5) || !closeTo(c.Outputs, b.Outputs, 0) {
				t.Fatalf("%v: outputs %v, unstored %v, in doubles %v", s, b.Outputs, c.Outputs, a.Outputs)
			}
		}
	}
	c := testContents(small)
	c.Tensors, c.Weights[0] = F32, 1e39 // finite as F64 only
	for i := range c.Golden {
		c.Golden[i].Outputs = nil
	}
	if _, err := NewStore(t.TempDir()).Publish(t.Context(), "m", c); !errors.Is(err, ErrContents) {
		t.Errorf("a parameter too large for F32: %v", err)
	}
	if _, err := PayloadDigest(c); !errors.Is(err, ErrContents) {
		t.Errorf("its digest: %v", err)
	}
	c.Tensors, c.Weights[0] = "BF16", 1
	if _, err := NewStore(t.TempDir()).Publish(t.Context(), "m", c); !errors.Is(err, ErrContents) {
		t.Errorf("an unknown type: %v", err)
	}
}

// E3 and E4 for F32: every flipped bit and every length of the tensors is refused.
func TestF32Damage(t *testing.T) {
	dir, c := t.TempDir(), testContents(small)
	c.Tensors = F32
	_, err := NewStore(dir).Publish(t.Context(), "m", c)
	must(t, err)
	path := filepath.Join(dir, "m", "1", tensorsFile)
	content, err := os.ReadFile(path)
	must(t, err)
	refused := func(b []byte) {
		t.Helper()
		must(t, os.WriteFile(path, b, 0o600))
		if m, err := Open(dir, "m", Selector{Alias: Latest}); m != nil || !isRefusal(err) {
			t.Fatalf("%d bytes: %v", len(b), err)
		}
	}
	for i := range content {
		content[i] ^= 1 << (i % 8)
		refused(content)
		content[i] ^= 1 << (i % 8)
	}
	for n := range len(content) {
		refused(content[:n])
	}
	forge(t, dir, func(_ *Manifest, files map[string][]byte) { files[tensorsFile] = content[:len(content)-4] })
	if _, err := Open(dir, "m", Selector{Version: 1}); !errors.Is(err, ErrFormat) {
		t.Errorf("one number too few, vouched for: %v", err)
	}
	nan := binary.LittleEndian.AppendUint32(
		bytes.Clone(content[:len(content)-4]),
		math.Float32bits(float32(math.NaN())),
	)
	forge(t, dir, func(_ *Manifest, files map[string][]byte) { files[tensorsFile] = nan })
	if _, err := Open(dir, "m", Selector{Version: 1}); !errors.Is(err, ErrFormat) {
		t.Errorf("a NaN, vouched for: %v", err)
	}
}
