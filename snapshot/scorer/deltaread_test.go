package scorer

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// smallDelta returns a model, the delta after it that the tests spoil, and the delta after that.
func smallDelta(t *testing.T) (m *Model, first, second *format.Delta) {
	t.Helper()
	m = chained(t, snapshottest.TestContents(snapshottest.Shape{Task: format.Regression, Link: format.Identity,
		Kernel: format.ANOVA, K: 2, Linear: true, Mapped: ""}))
	first = &format.Delta{
		Model:      "m",
		Base:       3,
		BaseDigest: m.Manifest().Digest,
		Sequence:   1,
		Previous:   m.Manifest().Digest,
		Created:    snapshottest.Created,
		Added: []format.AddedName{
			{Field: 0, Name: "u7"},
		},
		Columns: []int32{1, 10},
		Linear:  []float64{1, 2},
		Basis:   []float64{3, 4, 5, 6},
		Bias:    []float64{7},
	}
	if _, err := first.Encode(m.Shape(), nil); err != nil {
		t.Fatal(err)
	}
	second = &format.Delta{
		Model:      "m",
		Base:       3,
		BaseDigest: m.Manifest().Digest,
		Sequence:   2,
		Previous:   first.Digest,
		Created:    snapshottest.Created,
		Columns:    []int32{10},
		Linear:     []float64{8},
		Basis:      []float64{9, 10},
	}
	return m, first, second
}

// refuse fails unless a frame is refused with one of some errors, and m stays as it is.
func refuse(t *testing.T, m *Model, frame []byte, keys format.Keys, want ...error) {
	t.Helper()
	before := m.Contents()
	d, err := format.DecodeDelta(frame, m.Shape(), keys)
	if err == nil {
		var next *Model
		if next, err = m.Apply(d); next != nil {
			t.Fatalf("applied, with error %v", err)
		}
	}
	if !slices.ContainsFunc(want, func(w error) bool { return errors.Is(err, w) }) {
		t.Errorf("%v, want one of %v", err, want)
	}
	if !reflect.DeepEqual(before, m.Contents()) || m.Position().Sequence != 0 {
		t.Error("the model was changed")
	}
}

func TestEveryDeltaBitFlipRefused(t *testing.T) {
	m, d, _ := smallDelta(t)
	signer := snapshottest.SignerOf(t, 1)
	for name, s := range map[string]*format.Signer{"unsigned": nil, "signed": signer} {
		frame, err := d.Encode(m.Shape(), s)
		snapshottest.Must(t, err)
		var keys format.Keys
		if s != nil {
			keys = s.Keys()
		}
		for bit := range 8 * len(frame) {
			spoiled := bytes.Clone(frame)
			spoiled[bit/8] ^= 1 << (bit % 8)
			refuse(t, m, spoiled, keys, disk.ErrFormat, disk.ErrDigest, disk.ErrSignature)
		}
		for n := range frame {
			refuse(t, m, frame[:n], keys, disk.ErrFormat)
			torn, err := format.ReadFrame(bytes.NewReader(frame[:n]))
			if want := map[bool]error{true: io.EOF, false: io.ErrUnexpectedEOF}[n == 0]; torn != nil ||
				!errors.Is(err, want) {
				t.Errorf("%s, the first %d bytes: %v, want %v", name, n, err, want)
			}
		}
		refuse(t, m, append(bytes.Clone(frame), 0), keys, disk.ErrFormat)
		refuse(t, m, append(bytes.Clone(frame), frame...), keys, disk.ErrFormat)
		read, err := format.DecodeDelta(frame, m.Shape(), keys) // or the above proves nothing
		snapshottest.Must(t, err)
		_, err = m.Apply(read)
		snapshottest.Must(t, err)
	}
}

func TestDeltasOutOfChainRefused(t *testing.T) {
	m, first, second := smallDelta(t)
	next, err := m.Apply(first)
	snapshottest.Must(t, err)
	for _, test := range []struct {
		name string
		to   *Model
		d    *format.Delta
		edit func(d *format.Delta)
	}{
		{"the second before the first", m, second, func(*format.Delta) {}},
		{"the first again", next, first, func(*format.Delta) {}},
		{"after another first one", next, second, func(d *format.Delta) { d.Previous = m.Manifest().Digest }},
		{"one is left out", next, second, func(d *format.Delta) { d.Sequence = 3 }},
		{"of another model", m, first, func(d *format.Delta) { d.Model = "n" }},
		{"of another version", m, first, func(d *format.Delta) { d.Base = 4 }},
		{"of a version of the same number", m, first, func(d *format.Delta) {
			d.BaseDigest = "sha256:" + disk.HexSum(
				[]byte{1})
		}},
	} {
		d := *test.d
		test.edit(&d)
		if got, err := test.to.Apply(&d); got != nil || !errors.Is(err, disk.ErrChain) {
			t.Errorf("%s: %v, want ErrChain", test.name, err)
		}
	}
	if _, err := next.Apply(second); err != nil {
		t.Errorf("nothing changed: %v", err)
	}
}

func TestUntrustedDeltasRefused(t *testing.T) {
	m, d, _ := smallDelta(t)
	ours, theirs := snapshottest.SignerOf(t, 1), snapshottest.SignerOf(t, 2)
	plain, err := d.Encode(m.Shape(), nil)
	snapshottest.Must(t, err)
	refuse(t, m, plain, ours.Keys(), disk.ErrSignature)
	signed, err := d.Encode(m.Shape(), theirs)
	snapshottest.Must(t, err)
	refuse(t, m, signed, ours.Keys(), disk.ErrSignature)
	refuse(t, m, signed, format.Keys{}, disk.ErrSignature)
	other, err := d.Encode(m.Shape(), ours)
	snapshottest.Must(t, err)
	refuse(t, m,
		append(bytes.Clone(other[:len(other)-ed25519.SignatureSize]), signed[len(signed)-ed25519.SignatureSize:]...),
		ours.Keys(), disk.ErrSignature)
	manifestLike := ours.Sign(
		other[format.DeltaFixedBytes : len(other)-ed25519.SignatureSize],
	) // of the same key, and no delta's
	refuse(t, m, append(bytes.Clone(other[:len(other)-ed25519.SignatureSize]), manifestLike...), ours.Keys(),
		disk.ErrSignature)
	for _, keys := range []format.Keys{ours.Keys(), nil} {
		if got, err := format.DecodeDelta(other, m.Shape(), keys); err != nil || got.KeyID != ours.ID() ||
			got.Digest != d.Digest {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// forgeDelta returns the frame of a header and a payload, with the digests that belong to them.
func forgeDelta(h format.DeltaHeader, payload []byte) []byte {
	h.PayloadBytes, h.PayloadSHA256 = int64(len(payload)), disk.HexSum(payload)
	head, err := json.Marshal(&h)
	if err != nil {
		panic(err)
	}
	return slices.Concat(framePrefix(head), head, payload)
}

func framePrefix(head []byte) []byte {
	sum := sha256.Sum256(head)
	return append(binary.LittleEndian.AppendUint32([]byte("RFDELTA1"), uint32(len(head))), sum[:]...)
}

func TestForgedDeltasRefused(t *testing.T) {
	m, d, _ := smallDelta(t)
	frame, err := d.Encode(m.Shape(), nil)
	snapshottest.Must(t, err)
	h, err := format.ReadDeltaHeader(frame)
	snapshottest.Must(t, err)
	payload := frame[int64(len(frame))-h.PayloadBytes:]
	rows := bytes.IndexByte(payload, '\n') + 1 // column 1, linear, basis, basis; then column 10
	const row = 4 + 3*8
	edit := func(do func(p []byte)) []byte {
		p := bytes.Clone(payload)
		do(p)
		return p
	}
	number := func(at int, v float64) []byte {
		return edit(func(p []byte) { binary.LittleEndian.PutUint64(p[rows+at:], math.Float64bits(v)) })
	}
	column := func(at int, j uint32) []byte {
		return edit(func(p []byte) { binary.LittleEndian.PutUint32(p[rows+at:], j) })
	}
	named := func(line string) []byte { return append([]byte(line), payload[rows:]...) }
	for _, test := range []struct {
		name    string
		payload []byte
		header  func(h *format.DeltaHeader)
	}{
		{"NaN linear weight", number(4, math.NaN()), nil},
		{"infinite coordinate", number(12, math.Inf(-1)), nil},
		{"NaN bias", number(2*row, math.NaN()), nil},
		{"a column that the base lacks", column(0, 9_999), nil},
		{"a column beyond all", column(row, math.MaxUint32), nil},
		{"a gap before the added column", column(row, 11), nil},
		{"an added column that is there", column(row, 9), nil},
		{"repeated columns", column(0, 10), nil},
		{"descending columns", column(0, 11), nil},
		{"a name that is there", named(`["user","u1"]` + "\n"), nil},
		{"an empty name", named(`["user",""]` + "\n"), nil},
		{"a name not UTF-8", named("[\"user\",\"\xff\"]\n"), nil},
		{"a name of an unknown field", named(`["age","u7"]` + "\n"), nil},
		{"a name that is no string", named(`["user",{}]` + "\n"), nil},
		{"a name without its end", named(`["user","u7"` + "\n"), nil},
		{"no name", payload[rows:], nil},
		{"one row too few", append(bytes.Clone(payload[:rows+row]), payload[rows+2*row:]...), nil},
		{"bytes left over", append(bytes.Clone(payload), make([]byte, 8)...), nil},
		{"no payload", nil, nil},
		{"more rows than there are", payload, func(h *format.DeltaHeader) { h.Rows++ }},
		{"rows beyond all", payload, func(h *format.DeltaHeader) { h.Rows = math.MaxInt }},
		{"fewer rows than none", payload, func(h *format.DeltaHeader) { h.Rows = -1 }},
		{"more names than rows", payload, func(h *format.DeltaHeader) { h.Added = 3 }},
		{"two names", payload, func(h *format.DeltaHeader) { h.Added = 2 }},
		{"weights that are not there", payload, func(h *format.DeltaHeader) { h.Weights = true }},
		{"no bias", payload, func(h *format.DeltaHeader) { h.Bias = false }},
		{"sequence 0", payload, func(h *format.DeltaHeader) { h.Sequence = 0 }},
		{"losses without fold-in", payload, func(h *format.DeltaHeader) { h.FoldInLosses = [][]float64{{1}} }},
		{"checked in the future", payload, func(h *format.DeltaHeader) {
			h.Checked = &format.CheckedState{Sequence: 2,
				PayloadDigest: "sha256:"}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			forged := *h
			if test.header != nil {
				test.header(&forged)
			}
			refuse(t, m, forgeDelta(forged, test.payload), nil, disk.ErrFormat, disk.ErrContents)
		})
	}
	read, err := format.DecodeDelta(forgeDelta(*h, payload), m.Shape(), nil)
	snapshottest.Must(t, err)
	_, err = m.Apply(read) // or the table above proves nothing
	snapshottest.Must(t, err)
}

func TestDeltaLimits(t *testing.T) {
	m, d, _ := smallDelta(t)
	frame, err := d.Encode(m.Shape(), nil)
	snapshottest.Must(t, err)
	h, err := format.ReadDeltaHeader(frame)
	snapshottest.Must(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	h.PayloadBytes = 1 << 30
	head, err := json.Marshal(h)
	snapshottest.Must(t, err)
	huge := append(framePrefix(head), head...)
	h.PayloadBytes = format.MaxDeltaBytes
	head, err = json.Marshal(h)
	snapshottest.Must(t, err)
	cut := append(framePrefix(head), head...)
	longHead := binary.LittleEndian.AppendUint32([]byte("RFDELTA1"), math.MaxUint32)
	for name, test := range map[string]struct {
		frame []byte
		want  error
	}{"payload of 1 GB": {huge, disk.ErrFormat}, "header of 4 GB": {append(longHead, make([]byte, 100)...),
		disk.ErrFormat},
		"payload that does not come": {cut, io.ErrUnexpectedEOF}} {
		if got, err := format.ReadFrame(bytes.NewReader(test.frame)); got != nil || !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 1<<20 {
		t.Errorf("%d bytes of memory were taken for what is refused", taken)
	}
	wide := *d
	wide.Added, wide.Columns, wide.Bias = nil, make([]int32, format.MaxDeltaBytes/(4+3*8)+1), nil
	for i := range wide.Columns {
		wide.Columns[i] = int32(i)
	}
	wide.Linear, wide.Basis = make([]float64, len(wide.Columns)), make([]float64, 2*len(wide.Columns))
	if _, err := wide.Encode(m.Shape(), nil); !errors.Is(err, disk.ErrContents) || !strings.Contains(err.Error(),
		"max_rows") {
		t.Errorf("a delta of %d rows: %v, want ErrContents", len(wide.Columns), err)
	}
}

// TestSaysNothingRefused: a chain does not lead to what could not be published.
func TestSaysNothingRefused(t *testing.T) {
	c := snapshottest.TestContents(snapshottest.Shape{Task: format.Binary, Link: format.Logistic, Kernel: format.ANOVA,
		K: 0, Linear: true, Mapped: ""})
	m := chained(t, c)
	d := &format.Delta{
		Model:      "m",
		Base:       3,
		BaseDigest: m.Manifest().Digest,
		Sequence:   1,
		Previous:   m.Manifest().Digest,
		Created:    snapshottest.Created,
		Bias:       []float64{0},
	}
	for j := range m.NumColumns() {
		d.Columns = append(d.Columns, int32(j))
	}
	d.Linear, d.Basis = make([]float64, len(d.Columns)), []float64{}
	if got, err := m.Apply(d); got != nil || !errors.Is(err, disk.ErrContents) {
		t.Errorf("all zero: %v, want ErrContents", err)
	}
	d.Linear[4] = 1
	_, err := m.Apply(d)
	snapshottest.Must(t, err)
}

// TestFoldInHolds: weights that the fold-in of the version does not go with are refused.
func TestFoldInHolds(t *testing.T) {
	for name, c := range snapshottest.FoldShapes() {
		if !c.FoldIn.Shared && c.Kernel == format.ANOVA || c.NumBasis == 0 || c.NumOutputs == 1 && c.Kernel == format.ANOVA {
			continue
		}
		m := chained(t, c)
		d := &format.Delta{
			Model:      "m",
			Base:       3,
			BaseDigest: m.Manifest().Digest,
			Sequence:   1,
			Previous:   m.Manifest().Digest,
			Created:    snapshottest.Created,
			Linear:     []float64{},
			Basis:      []float64{},
			Weights:    slices.Clone(m.contents.Weights),
		}
		d.Weights[0] += 0.5
		if got, err := m.Apply(d); got != nil || !errors.Is(err, disk.ErrContents) {
			t.Errorf("%s: %v, want ErrContents", name, err)
		}
	}
}

// TestRoundedDelta: a delta of an F32 model that overflows there is refused before it is published.
func TestRoundedDelta(t *testing.T) {
	c := snapshottest.TestContents(snapshottest.Shape{Task: format.Regression, Link: format.Identity, Kernel: format.ANOVA,
		K: 2, Linear: true, Mapped: ""})
	c.Tensors = format.F32
	m := chained(t, c)
	d := &format.Delta{
		Model:      "m",
		Base:       3,
		BaseDigest: m.Manifest().Digest,
		Sequence:   1,
		Previous:   m.Manifest().Digest,
		Created:    snapshottest.Created,
		Columns:    []int32{2},
		Linear:     []float64{1e300},
		Basis:      []float64{1, 2},
	}
	if _, err := d.Encode(m.Shape(), nil); !errors.Is(err, disk.ErrContents) {
		t.Errorf("Encode: %v, want ErrContents", err)
	}
	if _, err := m.Apply(d); !errors.Is(err, disk.ErrContents) {
		t.Errorf("Apply: %v, want ErrContents", err)
	}
}

func FuzzDelta(f *testing.F) {
	c := snapshottest.TestContents(snapshottest.Shape{Task: format.Regression, Link: format.Identity, Kernel: format.ANOVA,
		K: 2, Linear: true, Mapped: ""})
	for i := range c.Golden {
		c.Golden[i].Outputs = nil
	}
	m, err := NewModel(c)
	if err != nil {
		f.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 5 {
		d := snapshottest.SomeDelta(rng, m)
		frame, err := d.Encode(m.Shape(), nil)
		if err != nil {
			f.Fatal(err)
		}
		h, err := format.ReadDeltaHeader(frame)
		if err != nil {
			f.Fatal(err)
		}
		begin := len(frame) - int(h.Rest())
		f.Add(frame[format.DeltaFixedBytes:begin], frame[begin:], false)
	}
	f.Add([]byte(`{"rows":67108864,"payload_bytes":67108864,"sequence":1}`), []byte{}, true)
	f.Fuzz(func(t *testing.T, head, payload []byte, raw bool) {
		var h format.DeltaHeader
		if !raw && json.Unmarshal(head, &h) == nil { // digests that hold, or hardly anything gets further
			h.PayloadBytes, h.PayloadSHA256, h.KeyID = int64(len(payload)), disk.HexSum(payload), ""
			head, _ = json.Marshal(&h)
		}
		frame := slices.Concat(framePrefix(head), head, payload)
		read, err := format.ReadFrame(bytes.NewReader(frame))
		if err != nil {
			if !snapshottest.IsRefusal(err) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Error(err)
			}
			return
		}
		if !bytes.HasPrefix(frame, read) {
			t.Error("a frame that was not there")
		}
		d, err := format.DecodeDelta(read, m.Shape(), nil)
		if err != nil {
			if !snapshottest.IsRefusal(err) {
				t.Error(err)
			}
			return
		}
		next, err := m.Apply(d)
		if err != nil {
			if !errors.Is(err, disk.ErrChain) && !errors.Is(err, disk.ErrContents) {
				t.Error(err)
			}
			return
		}
		if _, err := NewModel(next.Contents()); err != nil {
			t.Errorf("applied, and is not publishable: %v", err)
		}
		again, err := d.Encode(m.Shape(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if other, err := format.DecodeDelta(again, m.Shape(), nil); err != nil || !reflect.DeepEqual(other.Columns,
			d.Columns) ||
			!reflect.DeepEqual(other.Added, d.Added) {
			t.Errorf("encodes as %+v (%v), was %+v", other, err, d)
		}
	})
}
