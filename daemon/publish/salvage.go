package publish

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/publish"
)

// IsDamage reports whether a version or an alias cannot be read because it is not as it was published: files of it
// are gone, cut off, altered, replaced, or closed to who wrote them. What this build cannot read, and others may, is
// none.
func IsDamage(err error) bool {
	return errors.Is(err, snapshot.ErrDigest) || errors.Is(err, snapshot.ErrNotFound) || errors.Is(err, fs.ErrPermission)
}

// Damage returns what Follow found wrong with the files of the champion, nil where nothing is.
func (p *Publisher) Damage() error { return p.damage }

// inspect returns what is wrong with the files of the champion, which somebody may have damaged since they were
// published.
func (p *Publisher) inspect(champion snapshot.Pointer) error {
	if err := p.store.Complete(p.model.Name, champion); IsDamage(err) {
		return err
	}
	return nil
}

// Salvage moves champion from a version that cannot be read to one that can: the newest before it that the gate let
// through, else the newest of all. It signs the move and returns that version, or an error that wraps
// snapshot.ErrNotFound without such a version, ErrReplaced where another process moves it.
func (p *Publisher) Salvage(reason error) (*snapshot.Model, error) {
	if p.store == nil || p.watching {
		return nil, fmt.Errorf("publish: champion: %w, and moves it", ErrReplaced)
	}
	pointer, err := p.store.Alias(p.model.Name, Champion)
	if err != nil && !isDamaged(err) && !errors.Is(err, snapshot.ErrNotFound) {
		return nil, fmt.Errorf("publish: champion: %w", err)
	}
	good, err := p.newestReadable(pointer.Version)
	if err != nil {
		return nil, fmt.Errorf("publish: champion: %w", err)
	}
	move := publish.Move{Alias: Champion, To: good.Manifest().Version, Event: publish.EventRestored,
		Why: reason.Error(), Expired: true}
	if pointer.Version != 0 {
		move.From = &pointer.Version
	}
	if _, err := p.store.MoveAlias(context.Background(), p.model.Name, move); err != nil {
		return nil, fmt.Errorf("publish: champion: %w", err)
	}
	if pointer, err = p.store.Alias(p.model.Name, Champion); err != nil {
		return nil, fmt.Errorf("publish: champion: %w", err)
	}
	p.follow(pointer)
	p.lost, p.missing, p.damage = false, false, nil
	return good, nil
}

// newestReadable returns the newest version before another, 0 for any, that can be read and that the gate let
// through, else the newest after it. It returns snapshot.ErrNotFound without such a version.
func (p *Publisher) newestReadable(before int64) (*snapshot.Model, error) {
	var after *snapshot.Model
	for m := range p.Readable() {
		switch v := m.Manifest(); {
		case v.Decision != Promoted:
		case before == 0 || v.Version < before:
			return m, nil
		case after == nil && v.Version > before:
			after = m
		}
	}
	if after == nil {
		return nil, fmt.Errorf("%w: no version that the gate let through can be read", snapshot.ErrNotFound)
	}
	return after, nil
}
