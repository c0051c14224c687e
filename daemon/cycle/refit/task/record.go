package task

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/snapshot/format"
)

// ErrNotKept is returned for a version whose sample was not kept.
var ErrNotKept = errors.New(
	"cycle: the sample of the version was not kept: set publish.keep_sample before it is trained")

// Record is what a refit was made of: with it and the manifest the refit is repeated. In addition to the rows it has
// what the refit started from: the live model at that moment, which has learned events that no version has.
type Record struct {
	Model  *config.Model
	Sample *encode.Sample
	Start  *keptStart
}

// recordFormat defines the file: a reader refuses any other.
const recordFormat = 1

// keptHead and keptStart are the two values of a record, gob-encoded and compressed together.
type keptHead struct {
	Format int
	Model  []byte // config.Model.Stored
	Sample *encode.Sample
}

// recorder writes the record of a refit: the rows first, for the refit takes them.
type recorder struct {
	out     bytes.Buffer
	encoder *zstd.Encoder
	gob     *gob.Encoder
	tables  *tables.Set // a third value, of models that have tables
}

// Record begins the record, nil if none is kept.
func (j *Task) Record() (*recorder, error) {
	if !j.Model.Publish.KeepSample || j.Budget.Repeat != nil {
		return nil, nil
	}
	r := &recorder{tables: j.Rows.Sample.Tables()}
	var err error
	if r.encoder, err = zstd.NewWriter(&r.out, zstd.WithEncoderConcurrency(1)); err != nil {
		return nil, fmt.Errorf("cycle: record: %w", err)
	}
	r.gob = gob.NewEncoder(r.encoder)
	if err := r.gob.Encode(keptHead{recordFormat, j.Model.Stored(), j.Rows.Sample}); err != nil {
		return nil, fmt.Errorf("cycle: record: %w", err)
	}
	return r, nil
}

// Finish adds the start and returns the bytes.
func (r *recorder) Finish(w *WarmStart, heldOut fitted.HeldOutNames, numbers []format.NumericField) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	start := keptStart{HeldOut: heldOut, Rough: true, Carries: true, Bounded: true}
	if w != nil {
		start = keptStart{
			true,
			w.Model,
			w.Posterior,
			w.Lambda,
			w.Up,
			w.Horizon,
			w.Rows,
			w.Version,
			w.FeatureMap,
			w.MapWeights,
			w.MapRidge,
			heldOut,
			w.Lean,
			w.Dual,
			true,
			true,
			true,
			w.Entered,
			w.Scales,
			nil,
			true,
		}
	}
	for _, f := range numbers {
		start.Limits = append(start.Limits, f.Clip)
	}
	err := r.gob.Encode(start)
	if err == nil && r.tables != nil {
		err = r.gob.Encode(r.tables.AppendRecord(nil))
	}
	if err := errors.Join(err, r.encoder.Close()); err != nil {
		return nil, fmt.Errorf("cycle: record: %w", err)
	}
	return r.out.Bytes(), nil
}

// ReadRecord decodes Champion.Kept.
func ReadRecord(b []byte) (*Record, error) {
	d, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("cycle: kept sample: %w", err)
	}
	defer d.Close()
	decoder := gob.NewDecoder(io.LimitReader(d, fitted.MaxRecordBytes))
	var head keptHead
	if err := decoder.Decode(&head); err != nil {
		return nil, fmt.Errorf("cycle: kept sample: %w", err)
	}
	if head.Format != recordFormat {
		return nil, fmt.Errorf("cycle: kept sample of format %d, this build reads %d: use the build that wrote it",
			head.Format, recordFormat)
	}
	r := &Record{Sample: head.Sample, Start: new(keptStart)}
	if r.Model, err = config.DecodeStored(head.Model); err != nil {
		return nil, err
	}
	if err := decoder.Decode(r.Start); err != nil {
		return nil, fmt.Errorf("cycle: kept sample: %w", err)
	}
	if len(r.Model.Tables) == 0 {
		return r, nil
	}
	var kept []byte
	if err := decoder.Decode(&kept); err != nil {
		return nil, fmt.Errorf("cycle: kept sample: tables: %w", err)
	}
	set, err := tables.ReadRecord(r.Model, kept)
	if err != nil {
		return nil, fmt.Errorf("cycle: kept sample: %w", err)
	}
	r.Sample.SetTables(set)
	return r, nil
}

// HeldOut returns the held-out events: those for the choice of strength and basis size, then those of the gate.
func (r *Record) HeldOut() ([]event.Event, error) {
	names := make(rows.Interner)
	chosen, err := encode.DecodeRows(r.Sample.Select, names)
	if err != nil {
		return nil, err
	}
	judged, err := encode.DecodeRows(r.Sample.Gate, names)
	if err == nil {
		r.Sample.Tables().JoinAll(chosen, judged)
	}
	return append(chosen, judged...), err
}

// Chosen is what a refit found out by comparing, as the manifest of its version has it.
type Chosen struct {
	HalfLife      int64 // in events, with which training rows faded; 0 for none
	HeldOutSweeps int   // that held-out rows were learned from with; 0 for none
	// with which the variational stage began: anew or carried; empty, as in versions of earlier builds, is anew
	Precisions string
}

// On returns what was kept, on the vocabulary of the refit, whose variational stage begins with such precisions, nil
// for a refit that started from nothing.
func (s *keptStart) On(v *encode.Vocabulary, began fitted.PrecisionStart) *WarmStart {
	if !s.Warm {
		return nil
	}
	if s.Posterior != nil {
		s.Posterior.Field = v.Field
	}
	return &WarmStart{
		Model:      s.Model,
		Posterior:  s.Posterior,
		Lambda:     s.Lambda,
		Up:         s.Up,
		Horizon:    s.Horizon,
		Rows:       s.Rows,
		Version:    s.Version,
		FeatureMap: s.Map,
		MapWeights: s.Weights,
		MapRidge:   s.Ridge,
		Dual:       s.Dual,
		Entered:    s.Entered,
		Lean:       s.Lean,
		Precisions: fitted.PrecisionChoice{Stage: began},
	}
}

// NoCut is a number of solves that no refit reaches. Derived: no refit makes as many solves.
const NoCut = 1 << 30
