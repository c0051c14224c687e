package format

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/refitd/refitd/snapshot/internal/disk"
)

// Delta is what changed in a model since the delta before it, or, for sequence 1, since the version that its chain
// begins with. Its values are absolute: the state after delta n is a function of the version and deltas 1 to n. Rows
// of a forgetting model have their values at the last event that touched them. It is not changed once it is encoded
// or applied.
type Delta struct {
	Model      string
	Base       int64  // version that the chain belongs to
	BaseDigest string // of its manifest
	Sequence   int64  // 1, 2, … within the chain
	Previous   string // Digest of the delta before; BaseDigest for the first
	Created    time.Time
	Watermark  time.Time // newest event time behind it; zero is not known
	Events     *Counts   // of the records before the cut; nil is not known
	Cut        []Cut     // of the partitions whose next offset changed since the delta before

	Added   []AddedName // names that the model did not have, in the order of their columns, which follow all others
	Columns []int32     // changed rows, ascending; the last ones are those of Added
	Linear  []float64   // len(Columns)×m, nil for a model without linear term
	Basis   []float64   // len(Columns)×k

	TableRows []*TableRow // what is known of entities that changed, by table and name
	Trees     *Trees      // whole, as in Contents; nil is unchanged. Only of a version that has some

	Bias, Weights, MapWeights []float64   // whole, as in Contents; nil is unchanged
	FoldInLosses              [][]float64 // Losses of each of the version's FoldIn.Fields; nil is unchanged

	Checked *CheckedState // nil for most
	KeyID   string        // of the key that signed it; filled in by Encode and DecodeDelta
	Digest  string        // of the header, which vouches for the rest; filled in by Encode and DecodeDelta
}

// Shape is what a delta has to know of the models that it is for; all models of a chain have the same. It is read only.
type Shape struct {
	Schema     *Schema
	FoldIn     *FoldIn
	NumOutputs int
	NumBasis   int
	HasLinear  bool   // whether rows have linear weights
	Tensors    string // the type of the numbers: F64 or F32, "" for F64
	Tables     []*Table
	HasTrees   bool
}

// linearWidth returns how many linear weights a row has: one for each output, or none.
func (s *Shape) linearWidth() int {
	if s.HasLinear {
		return s.NumOutputs
	}
	return 0
}

// AddedName is a name that a delta adds to the vocabulary.
type AddedName struct {
	Field int // position in Schema.Named
	Name  string
}

// CheckedState is the state that consumers must have at an earlier delta of the chain, or at this one.
type CheckedState struct {
	Sequence      int64  `json:"sequence"`
	PayloadDigest string `json:"payload_digest"` // of Model.Contents there
}

const (
	deltaMagic = "RFDELTA1" // the last byte is the form: treesForm of a delta with trees
	treesForm  = '2'
	deltaText  = "refitd delta 1\n" // before a header where it is signed

	MaxDeltaBytes       = 64 << 20 // of the payload
	maxDeltaHeaderBytes = 1 << 20  // its cut has room for 16,000 partitions
	DeltaFixedBytes     = len(deltaMagic) + 4 + 32
	deltaSignatureBytes = 64
)

// DeltaHeader is the JSON at the head of a frame.
type DeltaHeader struct {
	Model         string        `json:"model"`
	Base          int64         `json:"base"`
	BaseDigest    string        `json:"base_digest"`
	Sequence      int64         `json:"sequence"`
	Previous      string        `json:"previous"`
	Created       time.Time     `json:"created"`
	Watermark     time.Time     `json:"event_time_watermark,omitzero"`
	Events        *Counts       `json:"events,omitempty"`
	Cut           []Cut         `json:"cut,omitempty"`
	Added         int           `json:"added"`
	Rows          int           `json:"rows"`
	TableRows     int           `json:"table_rows,omitempty"`
	TreesBytes    int64         `json:"trees_bytes,omitempty"` // of the trees in the payload, 0 without
	Bias          bool          `json:"bias,omitempty"`        // whether the payload has it, and so on
	Weights       bool          `json:"weights,omitempty"`
	MapWeights    bool          `json:"map_weights,omitempty"`
	PayloadBytes  int64         `json:"payload_bytes"`
	PayloadSHA256 string        `json:"payload_sha256"`
	FoldInLosses  [][]float64   `json:"fold_in_losses,omitempty"`
	Checked       *CheckedState `json:"checked,omitempty"`
	KeyID         string        `json:"key_id,omitempty"`
}

// Encode returns the frame of a delta and fills in KeyID and Digest. shape is that of any model of the chain. signer
// nil leaves it unsigned. It returns ErrContents for what could not be applied to a model of this shape.
func (d *Delta) Encode(shape *Shape, signer *Signer) ([]byte, error) {
	frame, err := d.encode(shape, signer)
	if err != nil {
		return nil, fmt.Errorf("snapshot: encode delta %d of %s version %d: %w: %w", d.Sequence, d.Model, d.Base,
			disk.ErrContents, err)
	}
	return frame, nil
}

func (d *Delta) encode(shape *Shape, signer *Signer) ([]byte, error) {
	if err := d.Validate(shape); err != nil {
		return nil, err
	}
	payload, trees, err := d.payload(shape)
	if err != nil {
		return nil, err
	}
	h := DeltaHeader{Model: d.Model, Base: d.Base, BaseDigest: d.BaseDigest, Sequence: d.Sequence, Previous: d.Previous,
		Created: d.Created.UTC().Truncate(time.Millisecond), Watermark: d.Watermark.UTC().Truncate(time.Millisecond),
		Events: d.Events, Cut: d.Cut, Added: len(d.Added), Rows: len(d.Columns), TableRows: len(d.TableRows),
		TreesBytes: int64(trees),
		Bias:       d.Bias != nil,
		Weights:    d.Weights != nil, MapWeights: d.MapWeights != nil, PayloadBytes: int64(len(payload)),
		PayloadSHA256: disk.HexSum(payload), FoldInLosses: d.FoldInLosses, Checked: d.Checked}
	if signer != nil {
		h.KeyID = signer.id
	}
	head, err := json.Marshal(&h)
	if err != nil {
		return nil, err
	}
	if len(head) > maxDeltaHeaderBytes {
		return nil, fmt.Errorf("header of %d bytes, the limit is %d: fewer partitions", len(head), maxDeltaHeaderBytes)
	}
	sum := sha256.Sum256(head)
	frame := make([]byte, 0, DeltaFixedBytes+len(head)+len(payload)+deltaSignatureBytes)
	frame = binary.LittleEndian.AppendUint32(append(frame, deltaMagic...), uint32(len(head)))
	frame = append(append(append(frame, sum[:]...), head...), payload...)
	if d.Trees != nil {
		frame[len(deltaMagic)-1] = treesForm
	}
	if signer != nil {
		frame = append(frame, signer.Sign(append([]byte(deltaText), head...))...)
	}
	d.KeyID, d.Digest = h.KeyID, disk.DigestOf(sum)
	return frame, nil
}

// payload returns the names added, a line ["field","name"] each, then the file of the trees, of so many bytes, then the
// rows (column, linear, basis), then what else changed; numbers little-endian and of the type of the model's tensors.
func (d *Delta) payload(shape *Shape) (b []byte, trees int, err error) {
	width := shape.linearWidth() + shape.NumBasis
	size := tensorBytes(cmp.Or(shape.Tensors, F64))
	numbers := len(d.Columns)*width + len(d.Bias) + len(d.Weights) + len(d.MapWeights)
	total := int64(len(d.Columns))*4 + int64(numbers)*int64(size)
	if total > MaxDeltaBytes {
		return nil, 0, deltaTooLarge(total)
	}
	b = make([]byte, 0, total+int64(32*len(d.Added)))
	fields := shape.Schema.Named()
	for _, a := range d.Added {
		b = append(appendString(append(b, '['), fields[a.Field]), ',')
		b = append(appendString(b, a.Name), "]\n"...)
	}
	for _, r := range d.TableRows {
		line, err := r.encode(shape.Tables)
		if err != nil {
			return nil, 0, err
		}
		b = append(append(b, line...), '\n')
	}
	if d.Trees != nil {
		file, err := d.Trees.Encode(shape.Schema)
		if err != nil {
			return nil, 0, err
		}
		b, trees = append(b, file...), len(file)
	}
	put := func(values []float64) {
		for _, v := range values {
			if size == 4 {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
			} else {
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
			}
		}
	}
	m, k := shape.linearWidth(), shape.NumBasis
	for i, j := range d.Columns {
		b = binary.LittleEndian.AppendUint32(b, uint32(j))
		put(d.Linear[i*m : (i+1)*m])
		put(d.Basis[i*k : (i+1)*k])
	}
	put(d.Bias)
	put(d.Weights)
	put(d.MapWeights)
	if len(b) > MaxDeltaBytes {
		return nil, 0, deltaTooLarge(int64(len(b)))
	}
	return b, trees, nil
}

func deltaTooLarge(n int64) error {
	return fmt.Errorf("payload of %d bytes, the limit is %d: fewer rows (publish.deltas.max_rows)", n, MaxDeltaBytes)
}

// Validate says what of a delta does not go with models of a shape; which names and columns they have is for Apply.
func (d *Delta) Validate(shape *Shape) error {
	if d.Sequence < 1 || d.Base < 0 {
		return fmt.Errorf("sequence %d after version %d: they count from 1", d.Sequence, d.Base)
	}
	if x := d.Checked; x != nil && (x.Sequence < 0 || x.Sequence > d.Sequence || x.PayloadDigest == "") {
		return fmt.Errorf("checked: digest %q of sequence %d in delta %d", x.PayloadDigest, x.Sequence, d.Sequence)
	}
	if err := d.validateColumns(shape.Schema); err != nil {
		return err
	}
	for i, r := range d.TableRows {
		if err := r.validate(shape.Tables); err != nil {
			return fmt.Errorf("table row %d: %w", i, err)
		}
		if i > 0 && d.TableRows[i-1].compare(r) >= 0 {
			return fmt.Errorf("table row %d is not behind the one before, by table and name", i)
		}
	}
	if d.Trees != nil && !shape.HasTrees {
		return fmt.Errorf("%s, which the version does not have", TreesFile)
	}
	if err := d.Trees.Validate(&Contents{Schema: *shape.Schema, NumOutputs: shape.NumOutputs}); err != nil {
		return err
	}
	if err := d.validateTensors(shape); err != nil {
		return err
	}
	if d.FoldInLosses == nil {
		return nil
	}
	if shape.FoldIn == nil || len(d.FoldInLosses) != len(shape.FoldIn.Fields) {
		return fmt.Errorf("losses of %d fields of the fold-in, which the version has otherwise", len(d.FoldInLosses))
	}
	for i, losses := range d.FoldInLosses {
		f := &shape.FoldIn.Fields[i]
		if len(losses) != len(f.Rates) || slices.ContainsFunc(losses, func(v float64) bool { return !IsFinite(v) }) {
			return fmt.Errorf("losses %v of the rates %v of field %q: want as many, finite", losses, f.Rates, f.Name)
		}
	}
	return nil
}

// validateTensors checks how many numbers there are, and that readers get finite ones.
func (d *Delta) validateTensors(shape *Shape) error {
	mapped := 0
	if fm := shape.Schema.FeatureMap; fm != nil {
		mapped = fm.NumColumns() * shape.NumOutputs
	}
	rows := len(d.Columns)
	for _, t := range []struct {
		name   string
		values []float64
		want   int
	}{
		{"linear", d.Linear, rows * shape.linearWidth()},
		{"basis", d.Basis, rows * shape.NumBasis},
		{"bias", d.Bias, shape.NumOutputs},
		{"weights", d.Weights, shape.NumBasis * shape.NumOutputs},
		{"map_weights", d.MapWeights, mapped},
	} {
		changed := t.values != nil || t.name == "linear" || t.name == "basis"
		if changed && len(t.values) != t.want {
			return fmt.Errorf("%s of %d rows has %d numbers, want %d", t.name, rows, len(t.values), t.want)
		}
		bad := notFinite(t.values)
		if shape.Tensors == F32 {
			bad = slices.IndexFunc(t.values, func(v float64) bool { return !IsFinite(float64(float32(v))) })
		}
		if bad >= 0 {
			return fmt.Errorf("%s[%d] is %g: parameters have to be finite, as %s", t.name, bad, t.values[bad],
				cmp.Or(shape.Tensors, F64))
		}
	}
	return nil
}

// validateColumns checks the names and columns of a delta without the model.
func (d *Delta) validateColumns(schema *Schema) error {
	fields := schema.FirstMulti() + len(schema.Multi)
	for i, a := range d.Added {
		switch {
		case a.Field < 0 || a.Field >= fields:
			return fmt.Errorf("added name %d, %q, is of field %d of %d", i, a.Name, a.Field, fields)
		case a.Name == "" || !utf8.ValidString(a.Name):
			return fmt.Errorf("added name %d, %q, of field %q is empty or not UTF-8", i, a.Name,
				schema.Named()[a.Field])
		}
	}
	last := int64(-1)
	for i, j := range d.Columns {
		if int64(j) <= last {
			return fmt.Errorf("row %d is of column %d after %d: want them ascending", i, j, last)
		}
		last = int64(j)
	}
	known := len(d.Columns) - len(d.Added)
	if known < 0 || len(d.Added) > 0 && int(last)-int(d.Columns[known]) != len(d.Added)-1 {
		return fmt.Errorf("%d names are added with %d rows: want the last rows to be theirs, without gaps",
			len(d.Added), len(d.Columns))
	}
	return nil
}

// Rounded returns the delta with the numbers that readers of a type will have.
func (d *Delta) Rounded(tensors string) *Delta {
	r := Contents{
		Tensors:    tensors,
		Basis:      d.Basis,
		Weights:    d.Weights,
		Linear:     d.Linear,
		Bias:       d.Bias,
		MapWeights: d.MapWeights,
	}
	to := *d
	c := r.Rounded()
	to.Basis, to.Weights, to.Linear, to.Bias, to.MapWeights = c.Basis, c.Weights, c.Linear, c.Bias, c.MapWeights
	return &to
}
