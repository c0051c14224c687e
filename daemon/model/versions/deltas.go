package versions

import (
	"context"
	"sync"

	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// deltaChecks makes digests of whole versions in parallel with the trainer, one at a time.
type deltaChecks struct {
	busy sync.WaitGroup
	done chan deltaCheck // nil while none is made
}

type deltaCheck struct {
	version int64
	state   format.CheckedState
	err     error
}

// beginDeltas lets deltas follow the version that was published just now.
func (v *Versions) BeginDeltas(ctx context.Context) error {
	if err := v.Publisher.BeginDeltas(ctx); err != nil {
		return err
	}
	at := publish.Position{Version: v.Publisher.Champion().Version}
	v.chain.Store(&at)
	v.log.Info("deltas begin", "version", at.Version)
	return nil
}

// PublishDelta publishes a delta, after which the version is the given model.
func (v *Versions) PublishDelta(ctx context.Context, d *format.Delta, after *snapshot.Model) (publish.Position,
	error) {
	at, err := v.Publisher.PublishDelta(ctx, d, after)
	if err == nil {
		v.chain.Store(&at)
	}
	return at, err
}

// EndDeltas ends the deltas of a version.
func (v *Versions) EndDeltas(reason string) {
	if at := v.chain.Swap(nil); at != nil {
		v.log.Info("deltas end", "version", at.Version, "sequence", at.Sequence, "bytes", at.Bytes, "reason", reason)
	}
	v.Publisher.EndDeltas()
}

// BeginCheck makes the digest of the whole version at a delta, unless one is made still.
func (v *Versions) BeginCheck(at publish.Position, model *snapshot.Model) {
	if v.checks.done != nil {
		return
	}
	done := make(chan deltaCheck, 1)
	v.checks.done = done
	v.checks.busy.Go(func() {
		// The model does not change: each delta makes another one that shares rows with it.
		digest, err := format.PayloadDigest(model.Contents())
		done <- deltaCheck{at.Version, format.CheckedState{Sequence: at.Sequence, PayloadDigest: digest}, err}
	})
}

// Check passes a digest that is ready to the publisher, for the next delta.
func (v *Versions) Check() {
	select {
	case c := <-v.checks.done:
		v.checks.done = nil
		if c.err != nil {
			v.log.Error("digest at a delta not made", "version", c.version, "sequence", c.state.Sequence, "error",
				c.err)
			return
		}
		v.Publisher.Check(c.version, c.state)
	default:
	}
}

// EndChecks waits for the digest that is being made, if any.
func (v *Versions) EndChecks() { v.checks.busy.Wait() }
