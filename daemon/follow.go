package daemon

import (
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/snapshot"
)

// follow takes up the version that champion names if somebody else moved the alias: an operator, or another instance on the same store.
func (u *unit) follow() {
	version, err := u.versions.Follow()
	if err != nil {
		u.log.Error("champion not taken up", "reason", err)
		return
	}
	if version != nil {
		u.adopt(version)
	}
}

// adopt makes a version of the store the champion that challengers are compared with, and reports whether that was possible.
func (u *unit) adopt(version *snapshot.Model) bool {
	manifest := version.Manifest()
	ch, err := cycle.FromSnapshot(u.config, version)
	if err != nil {
		u.log.Error("champion not taken up", "version", manifest.Version, "reason", err)
		return false
	}
	ch.Chosen = u.versions.Chosen()
	u.cycle.Adopt(ch)
	number := manifest.Version
	u.champion = &number
	u.serving.Store(&dated{ch.Version, manifest.Created})
	u.metrics.live(u.config.Name, ch, manifest.Created, manifest.Expires)
	u.log.Info("champion moved by somebody else", "version", number, "by_operator", ch.Chosen)
	return true
}
