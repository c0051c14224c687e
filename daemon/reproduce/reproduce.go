package reproduce

import (
	"context"
	"errors"
	"fmt"

	"github.com/refitd/refitd/daemon/cycle/refit"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/scorer"
)

// ErrUpdate is returned for a version of kind update.
var ErrUpdate = errors.New(
	"reproduce: the version is an update: a refit plus what was folded in after it, event by event in the order " +
		"in which " +
		"they arrived from all partitions, which nothing records. Its parents of kind refit can be reproduced",
)

// Outcome compares a version with the refit made again.
type Outcome struct {
	Want        string // payload digest in the manifest
	Got         string // of the refit made again
	Differences []string
}

// Version makes the refit of a version again, from its kept sample, and compares payload and figures. It returns
// ErrUpdate, task.ErrNotKept, ErrDigest, or the error of ctx.
func Version(ctx context.Context, store string, version *snapshot.Model, workers int) (*Outcome, error) {
	m := version.Manifest()
	if m.Kind == "update" {
		return nil, fmt.Errorf("version %d: %w", m.Version, ErrUpdate)
	}
	record, err := Open(store, &m)
	if err != nil {
		return nil, err
	}
	if hash := record.Model.Hash(); !record.Model.MadeFor(m.ConfigHash) {
		return nil, fmt.Errorf(
			"reproduce: version %d was trained with configuration %s, this build reads the kept one as %s: use the build "+
				"that wrote it (%s)",
			m.Version,
			m.ConfigHash,
			hash,
			m.Writer,
		)
	}
	again, err := refit.Repeat(record, ctx, m.CutShort,
		task.Chosen{HalfLife: m.HorizonEvents, HeldOutSweeps: m.HeldOutSweeps, Precisions: m.Precisions}, workers)
	if err != nil {
		return nil, err
	}
	contents := again.Contents(record.Model)
	contents.Tensors = version.Contents().Tensors
	rounded, err := scorer.NewModel(contents) // to those tensors
	if err != nil {
		return nil, fmt.Errorf("reproduce: %w", err)
	}
	contents = rounded.Contents()
	digest, err := format.PayloadDigest(contents)
	if err != nil {
		return nil, fmt.Errorf("reproduce: %w", err)
	}
	out := &Outcome{Want: m.PayloadDigest, Got: digest}
	out.compare(&m, version.Contents(), contents)
	return out, nil
}

// compare lists what differs: figures by their value, tensors by the number of entries and the largest difference.
func (o *Outcome) compare(m *snapshot.Manifest, want, got *format.Contents) {
	differ := func(what string, want, got any) {
		if want != got {
			o.Differences = append(o.Differences, fmt.Sprintf("%s is %v, the version has %v", what, got, want))
		}
	}
	x := &got.Meta
	differ("sample_digest", m.SampleDigest, x.SampleDigest)
	differ("features", m.NumFeatures, got.NumFeatures)
	differ("k", m.NumBasis, got.NumBasis)
	differ("lambda", m.Lambda, x.Lambda)
	differ("objective", m.Objective, x.Objective)
	differ("solver", m.Solver, x.Solver)
	differ("status", m.Status, x.Status)
	differ("sweeps", m.Sweeps, x.Sweeps)
	for _, t := range []struct {
		name      string
		want, got []float64
	}{{"basis", want.Basis, got.Basis}, {"weights", want.Weights, got.Weights}, {"linear", want.Linear, got.Linear},
		{"bias", want.Bias, got.Bias},
		{"map_weights", want.MapWeights, got.MapWeights}} {
		if len(t.want) != len(t.got) {
			differ("the length of "+t.name, len(t.want), len(t.got))
			continue
		}
		n, largest := 0, 0.0
		for i, v := range t.want {
			if v != t.got[i] {
				n++
				largest = max(largest, v-t.got[i], t.got[i]-v)
			}
		}
		if n > 0 {
			o.Differences = append(o.Differences,
				fmt.Sprintf("%s: %d of %d numbers differ, by at most %g", t.name, n, len(t.want), largest))
		}
	}
	if o.Want != o.Got && len(o.Differences) == 0 {
		o.Differences = append(o.Differences, "the names or the scaling of the features differ")
	}
}

// IsRefusal reports whether an error says that a version cannot be reproduced, rather than that something failed.
func IsRefusal(err error) bool { return errors.Is(err, ErrUpdate) || errors.Is(err, task.ErrNotKept) }
