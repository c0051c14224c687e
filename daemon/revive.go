package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// keptFile holds, in the state directory, what the last promoted refit needs beside its snapshot.
const keptFile = "posterior"

// keep stores the precisions and covariances of a champion, so that a restart goes on where it stopped.
func (u *unit) keep(ch *cycle.Champion) error {
	b, err := ch.Keep()
	if err != nil {
		return storeError(err, u.daemon.config.StatePath(u.config))
	}
	dir := u.daemon.config.StatePath(u.config)
	if err := replaceFile(filepath.Join(dir, keptFile), b); err != nil {
		return storeError(fmt.Errorf("daemon: keep the posterior: %w", err), dir)
	}
	return nil
}

// revive takes up the champion of an earlier run and folds in again what the sample holds from after its cut. Without one, or if it does
// not fit any more, which is said, the unit starts without a champion and folds in the whole sample.
func (u *unit) revive() error {
	name := u.config.Name
	refit, err := snapshot.Open(u.config.Publish.Store, name, snapshot.Selector{Alias: publish.Refit})
	if errors.Is(err, snapshot.ErrNotFound) {
		return u.relearn(nil)
	}
	var ch *cycle.Champion
	if err == nil {
		var kept []byte
		if kept, err = os.ReadFile(filepath.Join(u.daemon.config.StatePath(u.config), keptFile)); err == nil {
			ch, err = cycle.Revive(u.config, refit, kept)
		}
	}
	if err != nil {
		u.log.Warn("champion not taken up", "reason", err)
		return u.relearn(nil)
	}
	u.cycle.Install(ch)
	if err := u.relearn(ch.Version.Cut); err != nil {
		return err
	}
	if champion, err := snapshot.Open(u.config.Publish.Store, name, snapshot.Selector{Alias: publish.Champion}); err == nil {
		if out, err := cycle.FromSnapshot(u.config, champion); err == nil {
			number := out.Version.Version
			u.champion = &number
			u.cycle.PublishUpdate(out)
			u.metrics.live(name, out, float64(champion.Manifest().Created.UnixMilli())/1000)
			u.log.Info("champion taken up", "version", number, "refit", ch.Version.Version)
		}
	}
	return nil
}

// relearn folds in the training rows from after a cut, oldest first.
func (u *unit) relearn(cut []report.Cut) error {
	sample, err := u.store.Sample()
	if err != nil {
		return storeError(err, u.daemon.config.StatePath(u.config))
	}
	return ingest.Relearn(u.cycle, sample, cut)
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

// saslOf returns the credentials of the configuration in the consumer's terms.
func saslOf(s *config.SASL) consumer.SASL {
	if s.Mechanism == "none" {
		return consumer.SASL{}
	}
	return consumer.SASL{Mechanism: strings.ToUpper(s.Mechanism), Username: s.Username, Password: s.Password.Reveal()}
}

// modelRegisterer keeps the consumers' series of several models apart.
func modelRegisterer(r prometheus.Registerer, model string, models int) prometheus.Registerer {
	if models == 1 {
		return r
	}
	return prometheus.WrapRegistererWith(prometheus.Labels{"model": model}, r)
}
