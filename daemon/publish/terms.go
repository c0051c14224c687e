package publish

import (
	"errors"
	"fmt"
	"slices"

	"github.com/refitd/refitd/snapshot"
)

// ErrReplaced means that another publisher has begun to publish, so this one may not any more.
var ErrReplaced = errors.New("another publisher has taken over")

// Lead makes this publisher the one that publishes, in an epoch that is larger than those of all before it. Versions
// carry it, and one of an earlier epoch is not written any more once the store has one of this.
func (p *Publisher) Lead(epoch int64) { p.watching, p.epoch = false, epoch }

// Watch makes this publisher one that only follows what another one publishes.
func (p *Publisher) Watch() { p.watching = true }

// Newest returns a function that reads the epoch and the number of the newest version in the store, on any goroutine:
// 0 without one, and where it cannot be read, which the next publication repairs or says.
func (p *Publisher) Newest() func() (epoch, version int64) {
	if p.store == nil {
		return func() (int64, int64) { return 0, 0 }
	}
	store, name := p.store, p.model.Name
	return func() (int64, int64) {
		latest, err := store.Alias(name, snapshot.Latest)
		if err != nil { // the alias is damaged or missing
			versions, _ := store.Versions(name)
			latest.Version = slices.Max(append(versions, 0))
		}
		manifest, err := store.Manifest(name, latest.Version)
		if err != nil {
			return 0, latest.Version
		}
		return manifest.Epoch, latest.Version
	}
}

// Fence has the store refuse versions while this publisher is not the one that publishes, as term says from any
// goroutine, and those of an epoch that is over.
func (p *Publisher) Fence(term func() (epoch int64, ok bool)) {
	if p.store == nil {
		return
	}
	newest := p.Newest()
	p.store.Fence = func() error {
		epoch, ok := term()
		if !ok {
			return ErrReplaced
		}
		if n, _ := newest(); n > epoch {
			return fmt.Errorf("%w: the newest version is of epoch %d, this is %d", ErrReplaced, n, epoch)
		}
		return nil
	}
}
