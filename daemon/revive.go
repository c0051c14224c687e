package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/failpoint"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// keep stores the precisions and covariances of a champion, so that a restart goes on where it stopped.
func (u *unit) keep(ch *cycle.Champion) error {
	b, err := ch.Keep()
	err = errors.Join(err, failpoint.At(failpoint.DaemonKeep))
	if err != nil {
		return ingest.StateError(err, u.daemon.config.StatePath(u.config))
	}
	dir := u.daemon.config.StatePath(u.config)
	if err := replaceFile(filepath.Join(dir, config.PosteriorFile), b); err != nil {
		return ingest.StateError(fmt.Errorf("daemon: keep the posterior: %w", err), dir)
	}
	return nil
}

// revive takes up the champion of an earlier run and folds in again what the sample holds from after its cut. Without one, or if it does
// not fit any more, which is said, the unit starts without a champion and folds in the whole sample.
func (u *unit) revive() error {
	trust, store, name := snapshot.Trust{AllowExpired: true}, u.config.Publish.Store, u.config.Name
	var cut []report.Cut
	ch, err := u.reviveRefit(trust)
	switch {
	case errors.Is(err, snapshot.ErrNotFound):
	case err != nil:
		u.log.Warn("champion not taken up", "reason", err)
	default:
		u.cycle.Install(ch)
		cut = ch.Version.Cut
	}
	champion, err := trust.Open(store, name, snapshot.Selector{Alias: publish.Champion})
	if err != nil && !errors.Is(err, snapshot.ErrNotFound) {
		u.log.Warn("champion not taken up", "reason", err)
	}
	if err == nil && u.versions.Chosen() {
		if u.adopt(champion) {
			cut = u.cycle.Champion().Version.Cut
		}
	} else if out, fits := u.fitting(champion); fits && ch != nil {
		number := out.Version.Version
		u.champion = &number
		u.cycle.PublishUpdate(out)
		u.serving.Store(&dated{out.Version, champion.Manifest().Created})
		u.metrics.live(name, out, champion.Manifest().Created, champion.Manifest().Expires)
		u.log.Info("champion taken up", "version", number, "refit", ch.Version.Version)
	}
	return u.relearn(cut)
}

// reviveRefit reads the last promoted refit with what the state directory keeps of it.
func (u *unit) reviveRefit(trust snapshot.Trust) (*cycle.Champion, error) {
	refit, err := trust.Open(u.config.Publish.Store, u.config.Name, snapshot.Selector{Alias: publish.Refit})
	if err != nil {
		return nil, err
	}
	kept, err := os.ReadFile(filepath.Join(u.daemon.config.StatePath(u.config), config.PosteriorFile))
	if err != nil {
		return nil, err
	}
	return cycle.Revive(u.config, refit, kept)
}

// fitting returns a version as a champion, if the configuration still fits it.
func (u *unit) fitting(version *snapshot.Model) (*cycle.Champion, bool) {
	if version == nil {
		return nil, false
	}
	ch, err := cycle.FromSnapshot(u.config, version)
	return ch, err == nil
}

// relearn folds in the training rows from after a cut, oldest first.
func (u *unit) relearn(cut []report.Cut) error {
	sample, err := u.store.Sample()
	if err != nil {
		return ingest.StateError(err, u.daemon.config.StatePath(u.config))
	}
	panicked, err := ingest.Relearn(u.cycle, sample, cut)
	if panicked > 0 {
		u.log.Error("rows not folded in again", "reason", "panic", "rows", panicked)
	}
	return err
}

// replaceFile writes a file so that a crash leaves the old one or the new one, and the new one is durable when it returns.
func replaceFile(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // nothing is left to remove once renamed
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// modelRegisterer keeps the consumers' series of several models apart.
func modelRegisterer(r prometheus.Registerer, model string, models int) prometheus.Registerer {
	if models == 1 {
		return r
	}
	return prometheus.WrapRegistererWith(prometheus.Labels{"model": model}, r)
}
