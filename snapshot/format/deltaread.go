package format

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/refitd/refitd/snapshot/internal/disk"
)

// ReadFrame reads the frame of one delta from a stream of them, without looking at who signed it: DecodeDelta does
// that. It returns io.EOF at the end of the stream, io.ErrUnexpectedEOF if that is within a frame, and ErrFormat or
// ErrDigest for what is no frame; the stream cannot be read on after these. Memory is taken as bytes arrive, for 65 MiB
// at most.
func ReadFrame(r io.Reader) ([]byte, error) {
	frame, err := readFrame(r)
	if err != nil && err != io.EOF { // io.EOF as it is, as readers expect it
		return nil, fmt.Errorf("snapshot: read delta: %w", err)
	}
	return frame, err
}

func readFrame(r io.Reader) ([]byte, error) {
	frame := make([]byte, DeltaFixedBytes)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, err
	}
	length, err := HeaderLength(frame)
	if err != nil {
		return nil, err
	}
	if frame, err = ReadMore(r, frame, length); err != nil {
		return nil, err
	}
	h, err := ReadDeltaHeader(frame)
	if err != nil {
		return nil, err
	}
	return ReadMore(r, frame, h.Rest())
}

// ReadMore appends n bytes of r.
func ReadMore(r io.Reader, b []byte, n int64) ([]byte, error) {
	buf := bytes.NewBuffer(b)
	_, err := io.CopyN(buf, r, n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return buf.Bytes(), err
}

// HeaderLength returns the length of the header of a frame whose fixed bytes are there.
func HeaderLength(frame []byte) (int64, error) {
	if form := frame[len(deltaMagic)-1]; !bytes.HasPrefix(frame, []byte(deltaMagic[:len(deltaMagic)-1])) ||
		form < '1' || form > '9' {
		return 0, fmt.Errorf("%w: not a delta: it begins with %q", disk.ErrFormat, frame[:len(deltaMagic)])
	} else if form > treesForm {
		return 0, fmt.Errorf("%w: a delta of form %c: this build reads forms 1 and %c: take a newer build", disk.ErrFormat,
			form, treesForm)
	}
	n := int64(binary.LittleEndian.Uint32(frame[len(deltaMagic):]))
	if n > maxDeltaHeaderBytes {
		return 0, fmt.Errorf("%w: header of %d bytes, the limit is %d", disk.ErrFormat, n, maxDeltaHeaderBytes)
	}
	return n, nil
}

// ReadDeltaHeader reads the header of a frame of which that much is there, its digest first.
func ReadDeltaHeader(frame []byte) (*DeltaHeader, error) {
	length, err := HeaderLength(frame)
	if err != nil {
		return nil, err
	}
	head := frame[DeltaFixedBytes : DeltaFixedBytes+int(length)]
	if sum := sha256.Sum256(head); !bytes.Equal(sum[:], frame[DeltaFixedBytes-len(sum):DeltaFixedBytes]) {
		return nil, fmt.Errorf("header: %w: it was altered: take the delta from the publisher again", disk.ErrDigest)
	}
	h := new(DeltaHeader)
	if err := json.Unmarshal(head, h); err != nil {
		return nil, fmt.Errorf("header: %w: %v", disk.ErrFormat, err)
	}
	if h.PayloadBytes < 0 || h.PayloadBytes > MaxDeltaBytes || h.Rows < 0 || h.Rows > MaxDeltaBytes || h.Added < 0 ||
		h.Added > h.Rows || h.TableRows < 0 || h.TableRows > MaxDeltaBytes || h.TreesBytes < 0 ||
		h.TreesBytes > MaxTreesBytes {
		return nil, fmt.Errorf("header: %w: %d names, %d rows, %d bytes of trees, %d bytes: out of range (at most %d bytes)",
			disk.ErrFormat, h.Added, h.Rows, h.TreesBytes, h.PayloadBytes, MaxDeltaBytes)
	}
	if (frame[len(deltaMagic)-1] == treesForm) != (h.TreesBytes > 0) {
		return nil, fmt.Errorf("header: %w: %d bytes of trees in a delta of form %c", disk.ErrFormat, h.TreesBytes,
			frame[len(deltaMagic)-1])
	}
	return h, nil
}

// Rest returns how many bytes follow the header.
func (h *DeltaHeader) Rest() int64 {
	if h.KeyID != "" {
		return h.PayloadBytes + deltaSignatureBytes
	}
	return h.PayloadBytes
}

// DecodeDelta reads the frame of a delta for models of a shape: that of any model of the chain. Lengths, digests
// and, unless keys is nil, the signature are verified before the payload is parsed. It returns ErrFormat, ErrDigest or
// ErrSignature. Whether the delta follows a model is for Apply.
func DecodeDelta(frame []byte, shape *Shape, keys Keys) (*Delta, error) {
	d, h, payload, err := splitFrame(frame, keys)
	if err == nil {
		err = d.decode(h, payload, shape)
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot: delta: %w", err)
	}
	return d, nil
}

// DecodeDeltaHeader is DecodeDelta without names, rows and parameters, for callers that pass frames on and know no
// model.
func DecodeDeltaHeader(frame []byte, keys Keys) (*Delta, error) {
	d, _, _, err := splitFrame(frame, keys)
	if err != nil {
		return nil, fmt.Errorf("snapshot: delta: %w", err)
	}
	return d, nil
}

// splitFrame verifies a frame and returns its payload.
func splitFrame(frame []byte, keys Keys) (*Delta, *DeltaHeader, []byte, error) {
	r := bytes.NewReader(frame)
	if whole, err := readFrame(r); err != nil || r.Len() > 0 {
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) || err == nil {
			err = fmt.Errorf("%w: %d bytes are not one frame: %d too many, or cut off", disk.ErrFormat, len(frame),
				len(frame)-len(whole))
		}
		return nil, nil, nil, err
	}
	h, err := ReadDeltaHeader(frame)
	if err != nil {
		return nil, nil, nil, err
	}
	begin := int64(len(frame)) - h.Rest()
	head, payload, sig := frame[DeltaFixedBytes:begin], frame[begin:begin+h.PayloadBytes], frame[begin+h.PayloadBytes:]
	if keys != nil {
		if err := keys.Verify(fmt.Sprintf("delta %d of version %d", h.Sequence, h.Base), h.KeyID, append([]byte(deltaText),
			head...), sig); err != nil {
			return nil, nil, nil, err
		}
	}
	if sum := disk.HexSum(payload); sum != h.PayloadSHA256 {
		return nil, nil, nil, fmt.Errorf(
			"payload of delta %d: %w: SHA-256 %s, published with %s: take it from the publisher again", h.Sequence,
			disk.ErrDigest, sum, h.PayloadSHA256)
	}
	d := &Delta{
		Model:        h.Model,
		Base:         h.Base,
		BaseDigest:   h.BaseDigest,
		Sequence:     h.Sequence,
		Previous:     h.Previous,
		Created:      h.Created,
		Watermark:    h.Watermark,
		Events:       h.Events,
		Cut:          h.Cut,
		FoldInLosses: h.FoldInLosses,
		Checked:      h.Checked,
		KeyID:        h.KeyID,
		Digest:       disk.DigestOf(sha256.Sum256(head)),
	}
	return d, h, payload, nil
}

// decode reads the payload. Memory is taken once its length is right.
func (d *Delta) decode(h *DeltaHeader, payload []byte, shape *Shape) error {
	payload, err := d.decodeNames(h.Added, payload, shape.Schema)
	if err != nil {
		return fmt.Errorf("delta %d: %w: %w", d.Sequence, disk.ErrFormat, err)
	}
	if payload, err = d.decodeTableRows(h.TableRows, payload, shape.Tables); err != nil {
		return fmt.Errorf("delta %d: %w: %w", d.Sequence, disk.ErrFormat, err)
	}
	if payload, err = d.decodeTrees(h.TreesBytes, payload, shape); err != nil {
		return fmt.Errorf("delta %d: %w: %w", d.Sequence, disk.ErrFormat, err)
	}
	m, k, size := shape.linearWidth(), shape.NumBasis, tensorBytes(cmp.Or(shape.Tensors, F64))
	mapped := 0
	if fm := shape.Schema.FeatureMap; fm != nil {
		mapped = fm.NumColumns() * shape.NumOutputs
	}
	want := int64(h.Rows) * (4 + int64(size)*int64(m+k)) // below 2^60: see the limits in contents.go
	parts := []struct {
		there bool
		n     int
		to    *[]float64
	}{
		{h.Bias, shape.NumOutputs, &d.Bias},
		{h.Weights, k * shape.NumOutputs, &d.Weights},
		{h.MapWeights, mapped, &d.MapWeights},
	}
	for _, p := range parts {
		if p.there {
			want += int64(size) * int64(p.n)
		}
	}
	if int64(len(payload)) != want {
		return fmt.Errorf(
			"delta %d: %w: %d bytes of numbers for %d rows, want %d (%d basis vectors, %d linear weights)", d.Sequence,
			disk.ErrFormat, len(payload), h.Rows, want, k, m)
	}
	take := func(dst []float64) {
		for i := range dst {
			if size == 4 {
				dst[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(payload[4*i:])))
			} else {
				dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(payload[8*i:]))
			}
		}
		payload = payload[size*len(dst):]
	}
	d.Columns, d.Basis = make([]int32, h.Rows), make([]float64, h.Rows*k)
	if shape.HasLinear {
		d.Linear = make([]float64, h.Rows*m)
	}
	for i := range d.Columns {
		d.Columns[i] = int32(binary.LittleEndian.Uint32(payload))
		payload = payload[4:]
		take(d.Linear[i*m : (i+1)*m])
		take(d.Basis[i*k : (i+1)*k])
	}
	for _, p := range parts {
		if p.there {
			*p.to = make([]float64, p.n)
			take(*p.to)
		}
	}
	if err := d.Validate(shape); err != nil {
		return fmt.Errorf("delta %d: %w: %w", d.Sequence, disk.ErrFormat, err)
	}
	return nil
}

// decodeTrees reads trees of so many bytes, if there are any, and returns what follows them.
func (d *Delta) decodeTrees(n int64, payload []byte, shape *Shape) (rest []byte, err error) {
	if n == 0 {
		return payload, nil
	}
	if n > int64(len(payload)) || !shape.HasTrees {
		return nil, fmt.Errorf("%d bytes of %s in %d bytes, of a version of which has_trees is %t", n, TreesFile,
			len(payload), shape.HasTrees)
	}
	d.Trees, err = DecodeTrees(payload[:n], shape.Schema)
	return payload[n:], err
}

// decodeNames reads the names added and returns what follows them.
func (d *Delta) decodeNames(n int, payload []byte, s *Schema) ([]byte, error) {
	if n == 0 {
		return payload, nil
	}
	end := 0
	for i := range n {
		at := bytes.IndexByte(payload[end:], '\n')
		if at < 0 {
			return nil, fmt.Errorf("%d names, want %d", i, n)
		}
		end += at + 1
	}
	fields := s.Named()
	prefixes := make([]string, len(fields))
	for f, name := range fields {
		prefixes[f] = string(append(appendString([]byte{'['}, name), ','))
	}
	text := string(payload[:end])
	d.Added = make([]AddedName, 0, n)
	for i := range n {
		line, rest, _ := strings.Cut(text, "\n")
		text = rest
		field := -1
		for f, p := range prefixes {
			if strings.HasPrefix(line, p) {
				field = f
			}
		}
		if field < 0 || !strings.HasSuffix(line, "]") {
			return nil, fmt.Errorf("added name %d, %q: want [\"field\",\"name\"] with a field of the vocabulary", i,
				line)
		}
		name, err := parseString(line[len(prefixes[field]) : len(line)-1])
		if err != nil {
			return nil, fmt.Errorf("added name %d, %q: %w", i, line, err)
		}
		d.Added = append(d.Added, AddedName{field, name})
	}
	return payload[end:], nil
}
