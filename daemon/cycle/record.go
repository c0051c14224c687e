package cycle

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// ErrNotKept is returned for a version whose sample was not kept.
var ErrNotKept = errors.New("cycle: the sample of the version was not kept: set publish.keep_sample before it is trained")

// Record is what a refit was made of: with it and the manifest the refit is repeated. Beside the rows it has what the refit went on from: the
// live model at that moment, in which there are events folded in that no version has.
type Record struct {
	Model  *config.Model
	Sample *Sample
	start  *keptStart
}

const recordFormat = 1

// keptHead and keptStart are the two values of a record, gob-encoded and compressed together.
type keptHead struct {
	Format int
	Model  []byte // config.Model.Stored
	Sample *Sample
}

type keptStart struct {
	Warm      bool // false: the refit started from nothing
	Model     *solver.Model
	Posterior *posterior.State
	Lambda    float64
	Up        bool
	Horizon   int
	Rows      int64
	Version   int64
	Map       *snapshot.FeatureMap
	Weights   []float64 // on the map
	Ridge     float64   // of them
	HeldOut   heldOutNames
	Lean      bool // the convex stage was left out
	Dual      []float64
	Anew      bool                    // the variational stage runs from nothing, too, where the convex one is better: not in records of builds before that
	Rough     bool                    // refitJob.rough: not in records of builds before that
	Carries   bool                    // refitJob.carries: nor
	Entered   []int32                 // rows that Dual knows nothing of: nor
	Scales    []snapshot.NumericField // of the version that it goes on from: nor
	Limits    []float64               // refitJob.limits: nor
	Bounded   bool                    // not refitJob.unbounded: nor
}

// recorder writes the record of a refit: the rows first, for the refit takes them.
type recorder struct {
	out     bytes.Buffer
	encoder *zstd.Encoder
	gob     *gob.Encoder
}

// record begins the record, nil if none is kept.
func (j *refitJob) record() (*recorder, error) {
	if !j.model.Publish.KeepSample || j.budget.repeat != nil {
		return nil, nil
	}
	r := &recorder{}
	var err error
	if r.encoder, err = zstd.NewWriter(&r.out, zstd.WithEncoderConcurrency(1)); err != nil {
		return nil, fmt.Errorf("cycle: record: %w", err)
	}
	r.gob = gob.NewEncoder(r.encoder)
	if err := r.gob.Encode(keptHead{recordFormat, j.model.Stored(), j.sample}); err != nil {
		return nil, fmt.Errorf("cycle: record: %w", err)
	}
	return r, nil
}

// finish adds the start and returns the bytes.
func (r *recorder) finish(w *warmStart, heldOut heldOutNames, numbers []snapshot.NumericField) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	start := keptStart{HeldOut: heldOut, Rough: true, Carries: true, Bounded: true}
	if w != nil {
		start = keptStart{true, w.model, w.posterior, w.lambda, w.up, w.horizon, w.rows, w.version, w.featureMap, w.mapWeights, w.mapRidge, heldOut, w.lean,
			w.dual, true, true, true, w.entered, w.scales, nil, true}
	}
	for _, f := range numbers {
		start.Limits = append(start.Limits, f.Clip)
	}
	if err := errors.Join(r.gob.Encode(start), r.encoder.Close()); err != nil {
		return nil, fmt.Errorf("cycle: record: %w", err)
	}
	return r.out.Bytes(), nil
}

// maxRecordBytes bounds what a record may take once it is decompressed.
const maxRecordBytes = 8 << 30

// ReadRecord decodes Champion.Kept.
func ReadRecord(b []byte) (*Record, error) {
	d, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("cycle: kept sample: %w", err)
	}
	defer d.Close()
	decoder := gob.NewDecoder(io.LimitReader(d, maxRecordBytes))
	var head keptHead
	if err := decoder.Decode(&head); err != nil {
		return nil, fmt.Errorf("cycle: kept sample: %w", err)
	}
	if head.Format != recordFormat {
		return nil, fmt.Errorf("cycle: kept sample of format %d, this build reads %d: use the build that wrote it", head.Format, recordFormat)
	}
	r := &Record{Sample: head.Sample, start: new(keptStart)}
	if r.Model, err = config.DecodeStored(head.Model); err != nil {
		return nil, err
	}
	if err := decoder.Decode(r.start); err != nil {
		return nil, fmt.Errorf("cycle: kept sample: %w", err)
	}
	return r, nil
}

// HeldOut returns the held-out events: those for the choice of strength and basis size, then those of the gate.
func (r *Record) HeldOut() ([]event.Event, error) {
	names := make(interner)
	chosen, err := decodeRows(r.Sample.Select, names)
	if err != nil {
		return nil, err
	}
	judged, err := decodeRows(r.Sample.Gate, names)
	return append(chosen, judged...), err
}

// Chosen is what a refit found out by comparing, as the manifest of its version has it.
type Chosen struct {
	HalfLife      int64  // in events, with which training rows faded; 0 for none
	HeldOutSweeps int    // that held-out rows were learned from with; 0 for none
	Precisions    string // with which the variational stage began: anew or carried; empty, as in versions of earlier builds, is anew
}

// Repeat makes the refit again, ending where it was cut short if it was (nil: it ended by itself), and returns its model. The time budget
// of the configuration does not apply, and what of says was chosen is not chosen again. It takes the training rows of the record.
func (r *Record) Repeat(ctx context.Context, cut *snapshot.CutShort, of Chosen, workers int) (*Champion, error) {
	given := horizonOf(of.HalfLife)
	if given < 0 {
		return nil, fmt.Errorf("cycle: training rows faded with a half-life of %d events, which this build does not know: "+
			"use the build that made the version", of.HalfLife)
	}
	began := precisionStart(of.Precisions)
	if began != "" && began != precisionsAnew && began != precisionsCarried {
		return nil, fmt.Errorf("cycle: precisions began %q, which this build does not know: use the build that made the version", of.Precisions)
	}
	if cut == nil {
		cut = &snapshot.CutShort{Solves: noCut}
	}
	schema := r.Model.Schema.Event()
	j := &refitJob{given: given, heldOutSweeps: of.HeldOutSweeps, began: began, model: r.Model, schema: &schema, workers: workers, now: time.Now, sample: r.Sample,
		budget: budget{repeat: cut}, repeats: r.start, rough: r.start.Rough, carries: r.start.Carries,
		unbounded: !r.start.Bounded}
	ch, err := j.run(ctx)
	if err == nil && ctx.Err() != nil {
		err = ctx.Err() // what ends early for another reason proves nothing
	}
	return ch, err
}

// on returns what was kept, on the vocabulary of the refit, whose variational stage begins with such precisions, nil for a refit that started from nothing.
func (s *keptStart) on(v *Vocabulary, began precisionStart) *warmStart {
	if !s.Warm {
		return nil
	}
	if s.Posterior != nil {
		s.Posterior.Field = v.field
	}
	return &warmStart{model: s.Model, posterior: s.Posterior, lambda: s.Lambda, up: s.Up, horizon: s.Horizon, rows: s.Rows, version: s.Version,
		featureMap: s.Map, mapWeights: s.Weights, mapRidge: s.Ridge, dual: s.Dual, entered: s.Entered, lean: s.Lean,
		precisions: precisionChoice{Stage: began}}
}

// noCut is a number of solves that no refit reaches.
const noCut = 1 << 30
