package publish

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/publish"
)

// Refusal is something in the store that none of the publisher's keys signed.
type Refusal struct {
	Alias   string
	Version int64 // that it names, 0 if it cannot be read
	Reason  error

	sequence int64 // of its move
}

// Refusals returns what was refused since the last call, each once for as long as it stays. It was not used and not
// removed; the alias champion is moved back to what the keys signed.
func (p *Publisher) Refusals() []Refusal {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.refusals
	p.refusals = nil
	return list
}

// loadKeys lets the store sign, and take nothing but what the keys of the configuration signed.
func (p *Publisher) loadKeys(c *config.Publish) error {
	if c.OMSKeyFile != "" {
		signer, err := publish.LoadModelSigner(c.OMSKeyFile)
		if err != nil {
			return err
		}
		p.store.ModelSigner = signer
	}
	if c.SigningKeyFile == "" {
		return nil
	}
	signer, err := format.LoadSigner(c.SigningKeyFile)
	if err != nil {
		return err
	}
	keys, err := format.LoadKeys(c.TrustedKeys...)
	if err != nil {
		return err
	}
	maps.Copy(keys, signer.Keys())
	p.store.Signer, p.store.Keys = signer, keys
	p.store.Untrusted = func(alias string, found snapshot.Pointer) { p.note(alias, found, snapshot.ErrSignature) }
	return nil
}

// trust is what versions have to prove before they are used.
func (p *Publisher) trust() snapshot.Trust {
	return snapshot.Trust{Keys: p.store.Keys, AllowExpired: true}
}

// isForged reports whether something was refused because no trusted key signed it.
func isForged(err error) bool { return errors.Is(err, snapshot.ErrSignature) }

// look returns what champion says, or an error if it, or a version that is new to this publisher, is not signed by the
// store's keys.
func (p *Publisher) look() (snapshot.Pointer, error) {
	pointer, err := p.store.Alias(p.model.Name, Champion)
	if err != nil || p.store.Keys == nil ||
		p.champion != nil && p.sequence == pointer.Sequence && *p.champion == pointer.Version {
		return pointer, err
	}
	if _, err := p.store.Manifest(p.model.Name, pointer.Version); isForged(err) {
		return pointer, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.refused, Champion)
	return pointer, nil // what else is wrong with it is found when it is opened
}

// refuse notes that an alias, or the version that it names, is not signed by the store's keys.
func (p *Publisher) refuse(alias string, reason error) {
	unchecked := *p.store
	unchecked.Keys = nil
	found, _ := unchecked.Alias(p.model.Name, alias) // only to say which
	p.note(alias, found, reason)
}

func (p *Publisher) note(alias string, found snapshot.Pointer, reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := Refusal{alias, found.Version, reason, found.Sequence}
	if last, ok := p.refused[alias]; ok && last.Version == r.Version && last.sequence == r.sequence {
		return
	}
	p.refused[alias] = r
	p.refusals = append(p.refusals, r)
}

// restore moves champion back from what none of the keys signed: to the champion that this publisher knows, else to
// the newest version that the keys signed and the gate let through. It returns ErrNotFound without such a version;
// then the alias stays until a version is published.
func (p *Publisher) restore(reason error) (snapshot.Pointer, error) {
	name := p.model.Name
	p.refuse(Champion, reason)
	move := publish.Move{
		Alias:   Champion,
		Event:   publish.EventRestored,
		Why:     "it was " + snapshot.ErrSignature.Error(),
		Expired: true,
	}
	known := p.champion != nil && p.openable(*p.champion)
	if known {
		move.To = *p.champion
		if p.chosen {
			move.Event = publish.EventPromote
		}
	} else {
		good, err := p.newestReadable(0)
		if err != nil {
			return snapshot.Pointer{}, err
		}
		move.To = good.Manifest().Version
	}
	if _, err := p.store.MoveAlias(context.Background(), name, move); err != nil {
		return snapshot.Pointer{}, fmt.Errorf("moving back what is %w: %w", snapshot.ErrSignature, err)
	}
	pointer, err := p.store.Alias(name, Champion)
	if err == nil && known && pointer.Version == *p.champion {
		p.sequence = pointer.Sequence
	}
	return pointer, err
}

// openable reports whether a version can be read.
func (p *Publisher) openable(version int64) bool {
	_, err := p.trust().Open(p.dir, p.model.Name, snapshot.Selector{Version: version})
	return err == nil
}

// Readable returns the versions that can be read, best first to compare others with: newest first, the promoted ones
// before those that were kept.
func (p *Publisher) Readable() iter.Seq[*snapshot.Model] {
	return func(yield func(*snapshot.Model) bool) {
		if p.store == nil {
			return
		}
		versions, err := p.store.Versions(p.model.Name)
		if err != nil {
			return // there is no model yet, or its directory cannot be listed, which the next publication says
		}
		for _, decision := range []string{Promoted, Kept} {
			for _, version := range slices.Backward(versions) {
				manifest, err := p.store.Manifest(p.model.Name, version)
				if err != nil || (manifest.Decision == Promoted) != (decision == Promoted) {
					continue
				}
				m, err := p.trust().Open(p.dir, p.model.Name, snapshot.Selector{Version: version})
				if err == nil && !yield(m) {
					return
				}
			}
		}
	}
}

// Open returns the version that an alias of the store names. If the store's keys did not sign it, that is noted, and
// the version is the newest of those that they signed and the gate let through; of the alias refit, the newest such
// refit.
func (p *Publisher) Open(alias string) (*snapshot.Model, error) {
	name := p.model.Name
	if p.store == nil {
		return nil, snapshot.ErrNotFound
	}
	m, err := p.trust().Open(p.dir, name, snapshot.Selector{Alias: alias})
	if !isForged(err) {
		return m, err
	}
	p.refuse(alias, err)
	for good := range p.Readable() {
		if v := good.Manifest(); v.Decision == Promoted && (alias != Refit || v.Kind == Refit) {
			return good, nil
		}
	}
	return nil, fmt.Errorf("publish: %w: no version in place of %s", snapshot.ErrNotFound, alias)
}
