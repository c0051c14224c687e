package versions

import (
	"errors"
	"fmt"

	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/snapshot"
)

// openChampion opens the version that consumers have, nil without one, or if it cannot be read. One that is damaged
// is replaced by another that is salvaged: consumers that start now would have none.
func (v *Versions) openChampion() (champion *snapshot.Model, salvaged bool) {
	was := v.Publisher.Champion().Version
	champion, err := v.Publisher.Open(publish.Champion)
	if err == nil || errors.Is(err, snapshot.ErrNotFound) && was == 0 && !v.consumersHad() {
		return champion, false
	}
	if !publish.IsDamage(err) && was != 0 { // others may be able to read it
		v.log.Warn("champion not loaded", "reason", err)
		v.unreadable("store: version %d, which champion names, cannot be read here: %v", was, err)
		return nil, false
	}
	champion = v.salvageFrom(err)
	return champion, champion != nil
}

// Salvage gives consumers another version in place of a champion that is damaged, once: what cannot be read now
// cannot be read later.
func (v *Versions) Salvage() {
	damage := v.Publisher.Damage()
	if damage == nil || v.unread.Load() != nil {
		return
	}
	if champion := v.salvageFrom(damage); champion != nil {
		v.noteLost()
		v.adopt(champion)
	}
}

// salvageFrom moves champion to the newest version that can be read, for a reason why it cannot be where it is. It
// returns nil without such a version, or where another process moves it.
func (v *Versions) salvageFrom(reason error) *snapshot.Model {
	was := v.Publisher.Champion().Version
	champion, err := v.Publisher.Salvage(reason)
	if errors.Is(err, publish.ErrReplaced) {
		v.log.Warn("champion not loaded", "version", was, "reason", reason)
		return nil
	}
	if err != nil && errors.Is(reason, snapshot.ErrNotFound) && was == 0 { // what was there is gone, not damaged
		v.log.Warn("champion not loaded", "reason", reason)
		return nil
	}
	if err != nil {
		v.log.Error("champion is damaged, and no other version can take its place", "note", "the next refit does",
			"version", was, "reason", reason, "error", err)
		v.unreadable(
			"store: the champion is damaged, and no other version can take its place before the next refit: %v", reason)
		return nil
	}
	v.log.Error("champion is damaged: it was moved to another version",
		"version", was, "to", champion.Manifest().Version, "reason", reason)
	return champion
}

// unreadable notes why consumers have no version that can be read. It counts until they have one.
func (v *Versions) unreadable(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	v.unread.Store(&text)
}

// noteLost notes what the publisher has lost, for who asks whether the model is ready.
func (v *Versions) noteLost() {
	if !v.Publisher.Lost() {
		v.lost.Store(nil)
		return
	}
	text := fmt.Sprintf("store: the versions in %s are lost: it is made again with the next one",
		v.settings.Publish.Store)
	if damage := v.Publisher.Damage(); damage != nil {
		text = fmt.Sprintf("store: version %d, which champion names, is damaged: another takes its place: %v",
			v.Publisher.Champion().Version, damage)
	}
	v.lost.Store(&text)
}
