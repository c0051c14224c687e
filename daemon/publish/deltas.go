package publish

import (
	"context"
	"errors"
	"fmt"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/publish"
)

// ErrNoChain means that a delta has nothing to follow: what consumers have is not the version that deltas were begun
// after.
var ErrNoChain = errors.New("the champion is another version, or chosen by an operator")

// chain is the deltas of a version of this publisher.
type chain struct {
	file    *publish.Chain
	version int64
	digest  string // of its manifest
	bytes   int64
	checked *format.CheckedState // for the next delta; nil without
}

// Position is where a chain of deltas has come to.
type Position struct {
	Version  int64
	Sequence int64 // of the newest delta; 0 before the first
	Bytes    int64 // of all of them
	Delta    int64 // bytes of the newest
}

// BeginDeltas lets deltas follow the version that was published last and is the champion. It does nothing without a
// store.
func (p *Publisher) BeginDeltas(ctx context.Context) error {
	p.chain = nil
	if p.store == nil {
		return nil
	}
	if p.champion == nil {
		return fmt.Errorf("publish: deltas: %w", ErrNoChain)
	}
	file, err := p.store.OpenChain(ctx, p.model.Name, *p.champion)
	if err != nil {
		return fmt.Errorf("publish: deltas: %w", err)
	}
	p.chain = &chain{file: file, version: *p.champion, digest: file.Previous()}
	return nil
}

// HasDeltas reports whether deltas follow a version.
func (p *Publisher) HasDeltas() bool { return p.chain != nil }

// EndDeltas ends the deltas of the version that they follow. The next ones follow another.
func (p *Publisher) EndDeltas() { p.chain = nil }

// PublishDelta gives a copy of a delta its place in the chain, signs it and appends it, durably, and returns the place.
// shape is a model of the chain. It returns ErrNoChain where another version is champion or an operator chose it, and
// the errors of publish.Chain.Append.
func (p *Publisher) PublishDelta(ctx context.Context, delta *format.Delta, shape *snapshot.Model) (Position, error) {
	c := p.chain
	if c == nil || p.champion == nil || *p.champion != c.version || p.chosen || p.missing || p.lost {
		return Position{}, fmt.Errorf("publish: delta: %w", ErrNoChain)
	}
	d := *delta
	d.Model, d.Base, d.BaseDigest = p.model.Name, c.version, c.digest
	d.Sequence, d.Previous, d.Checked = c.file.Sequence()+1, c.file.Previous(), c.checked
	frame, err := d.Encode(shape.Shape(), p.store.Signer)
	if err == nil {
		err = c.file.Append(ctx, frame)
	}
	if err != nil {
		return Position{}, fmt.Errorf("publish: delta: %w", err)
	}
	c.bytes += int64(len(frame))
	c.checked = nil
	return Position{c.version, d.Sequence, c.bytes, int64(len(frame))}, nil
}

// Check has the next delta say what version a consumer has at an earlier one of the same chain: consumers compare.
func (p *Publisher) Check(version int64, state format.CheckedState) {
	if p.chain != nil && p.chain.version == version {
		p.chain.checked = &state
	}
}
