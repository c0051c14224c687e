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

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

// F32 tensors score as F64 ones but for the rounding of the parameters, every reader sees the same rounded ones, and
// publishing them again gives the same payload digest.
func TestF32(t *testing.T) {
	for _, s := range snapshottest.Shapes {
		dir, double, single := t.TempDir(), snapshottest.TestContents(s), snapshottest.TestContents(s)
		single.Tensors = format.F32
		store := publish.NewStore(dir)
		_, err := store.Publish(t.Context(), "m", double)
		snapshottest.Must(t, err)
		published, err := store.Publish(t.Context(), "m", single)
		snapshottest.Must(t, err)
		wide, err := Open(dir, "m", verify.Selector{Version: 1})
		snapshottest.Must(t, err)
		narrow, err := Open(dir, "m", verify.Selector{Version: 2})
		snapshottest.Must(t, err)
		if w, n := wide.Manifest(), narrow.Manifest(); n.Files[0].Bytes >= w.Files[0].Bytes ||
			n.PayloadDigest == w.PayloadDigest {
			t.Errorf("%v: %d bytes, in doubles %d", s, n.Files[0].Bytes, w.Files[0].Bytes)
		}
		got := narrow.Contents()
		if got.Tensors != format.F32 || wide.Contents().Tensors != format.F64 {
			t.Errorf("%v: read as %q and %q", s, got.Tensors, wide.Contents().Tensors)
		}
		for i, v := range got.Basis {
			if v != float64(float32(double.Basis[i])) {
				t.Errorf("%v: basis[%d] is %v, published from %v", s, i, v, double.Basis[i])
			}
		}
		if digest, err := format.PayloadDigest(single); err != nil || digest != published.PayloadDigest {
			t.Errorf("%v: digest of the trainer's model %s, %v, want %s", s, digest, err, published.PayloadDigest)
		}
		again, err := store.Publish(t.Context(), "m", got)
		if err != nil || again.PayloadDigest != published.PayloadDigest {
			t.Errorf("%v: published again as %s, %v, want %s", s, again.PayloadDigest, err, published.PayloadDigest)
		}
		unstored, err := scorer.NewModel(single)
		snapshottest.Must(t, err)
		rng := rand.New(rand.NewPCG(4, 5))
		for range 1000 {
			in := snapshottest.TestInputs()[rng.IntN(4)]
			in.Numeric = []float64{40 + 30*rng.NormFloat64()}
			a, err := wide.Predict(&in)
			snapshottest.Must(t, err)
			b, err := narrow.Predict(&in)
			snapshottest.Must(t, err)
			c, err := unstored.Predict(&in)
			snapshottest.Must(t, err)
			if !rowmath.CloseTo(b.Outputs, a.Outputs, 1e-5) || !rowmath.CloseTo(c.Outputs, b.Outputs, 0) {
				t.Fatalf("%v: outputs %v, unstored %v, in doubles %v", s, b.Outputs, c.Outputs, a.Outputs)
			}
		}
	}
	c := snapshottest.TestContents(snapshottest.Small)
	c.Tensors, c.Weights[0] = format.F32, 1e39 // finite as F64 only
	for i := range c.Golden {
		c.Golden[i].Outputs = nil
	}
	if _, err := publish.NewStore(t.TempDir()).Publish(t.Context(), "m", c); !errors.Is(err, disk.ErrContents) {
		t.Errorf("a parameter too large for F32: %v", err)
	}
	if _, err := format.PayloadDigest(c); !errors.Is(err, disk.ErrContents) {
		t.Errorf("its digest: %v", err)
	}
	c.Tensors, c.Weights[0] = "BF16", 1
	if _, err := publish.NewStore(t.TempDir()).Publish(t.Context(), "m", c); !errors.Is(err, disk.ErrContents) {
		t.Errorf("an unknown type: %v", err)
	}
}

// E3 and E4 for F32: every flipped bit and every length of the tensors is refused.
func TestF32Damage(t *testing.T) {
	dir, c := t.TempDir(), snapshottest.TestContents(snapshottest.Small)
	c.Tensors = format.F32
	_, err := publish.NewStore(dir).Publish(t.Context(), "m", c)
	snapshottest.Must(t, err)
	path := filepath.Join(dir, "m", "1", disk.TensorsFile)
	content, err := os.ReadFile(path)
	snapshottest.Must(t, err)
	refused := func(b []byte) {
		t.Helper()
		snapshottest.Must(t, os.WriteFile(path, b, 0o600))
		if m, err := Open(dir, "m", verify.Selector{Alias: pointer.Latest}); m != nil || !snapshottest.IsRefusal(err) {
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
	forge(t, dir, func(_ *format.Manifest, files map[string][]byte) { files[disk.TensorsFile] = content[:len(content)-4] })
	if _, err := Open(dir, "m", verify.Selector{Version: 1}); !errors.Is(err, disk.ErrFormat) {
		t.Errorf("one number too few, vouched for: %v", err)
	}
	nan := binary.LittleEndian.AppendUint32(bytes.Clone(content[:len(content)-4]),
		math.Float32bits(float32(math.NaN())))
	forge(t, dir, func(_ *format.Manifest, files map[string][]byte) { files[disk.TensorsFile] = nan })
	if _, err := Open(dir, "m", verify.Selector{Version: 1}); !errors.Is(err, disk.ErrFormat) {
		t.Errorf("a NaN, vouched for: %v", err)
	}
}
