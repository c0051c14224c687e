// Package publish numbers the versions of a model, writes them to the snapshot store and moves its aliases.
package publish

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// The decisions of the gate, and the aliases that follow a promotion: champion is what consumers should use, refit the newest promoted
// refit, which a restart goes on from. The store itself moves latest to every new version.
const (
	Promoted = "promoted"
	Kept     = "kept"

	Champion = "champion"
	Refit    = "refit"
)

// Writer is the name and version of the program in manifests.
var Writer = "refitd"

// Publisher publishes the versions of one model. It belongs to one goroutine.
type Publisher struct {
	model    *config.Model
	store    *snapshot.Store // nil numbers versions without writing them
	now      func() time.Time
	version  int64
	champion *int64
}

// New returns the publisher of a model. dir is the store; empty only numbers and digests versions.
func New(m *config.Model, dir string, now func() time.Time) (*Publisher, error) {
	p := &Publisher{model: m, now: now}
	if dir == "" {
		return p, nil
	}
	p.store = snapshot.NewStore(dir)
	aliases, err := p.store.Aliases(m.Name)
	if err != nil && !errors.Is(err, snapshot.ErrNotFound) {
		return nil, fmt.Errorf("publish: %w", err)
	}
	if v, ok := aliases[Champion]; ok {
		p.champion = &v
	}
	return p, nil
}

// Configure takes up a configuration that differs in what publish.keep says and in what versions carry of it.
func (p *Publisher) Configure(m *config.Model) { p.model = m }

// Store returns the store, nil without one.
func (p *Publisher) Store() *snapshot.Store { return p.store }

// Publish writes a judged model as the next version and fills in its number, parent and payload digest. A promoted one becomes champion;
// old versions beyond publish.keep are removed, aliased ones never.
func (p *Publisher) Publish(ctx context.Context, ch *cycle.Champion) error {
	v := &ch.Version
	v.Parent = p.champion
	contents := ch.Contents(p.model)
	contents.Meta.Writer, contents.Meta.Created = Writer, p.now()
	digest, err := snapshot.PayloadDigest(contents)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	v.PayloadDigest = digest
	if p.store == nil {
		p.version++
		v.Version = p.version
	} else {
		manifest, err := p.store.Publish(ctx, p.model.Name, contents, p.moves(v)...)
		if err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		v.Version = manifest.Version
	}
	if v.Decision == Promoted {
		promoted := v.Version
		p.champion = &promoted
	}
	return p.prune(ctx)
}

// moves are the aliases that a version moves: none unless it is promoted.
func (p *Publisher) moves(v *report.Version) []snapshot.Move {
	if v.Decision != Promoted {
		return nil
	}
	moves := []snapshot.Move{{Alias: Champion}}
	if v.Kind == Refit {
		moves = append(moves, snapshot.Move{Alias: Refit})
	}
	return moves
}

func (p *Publisher) prune(ctx context.Context) error {
	if p.store == nil || p.model.Publish.Keep == 0 {
		return nil
	}
	if _, err := p.store.Prune(ctx, p.model.Name, snapshot.Retention{Keep: p.model.Publish.Keep}); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}
