package cycle

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
)

// KeepShared returns what other processes need beside the snapshot of a refit to learn from events on it, compressed, for ReviveShared: posteriors and
// baselines. It is nil where there is no posterior.
func (ch *Champion) KeepShared() ([]byte, error) {
	if ch.posterior == nil {
		return nil, nil
	}
	k := kept{Format: keptFormat, Lambda: ch.Lambda, Posterior: ch.posterior, Gaussian: ch.gaussian, Link: ch.link,
		Popular: ch.popular, PopularOnly: ch.popularOnly}
	if ch.means != nil {
		k.Global, k.ByName, k.Majority, k.Frequencies = ch.means.global, ch.means.byName, ch.means.majority, ch.means.frequencies
	}
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	if err == nil {
		err = errors.Join(gob.NewEncoder(z).Encode(&k), z.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("cycle: keep the posterior: %w", err)
	}
	return out.Bytes(), nil
}

// ReviveShared builds a champion to learn on from the snapshot of a refit and what KeepShared returned for it. No refit goes on from it.
func ReviveShared(m *config.Model, model *snapshot.Model, shared []byte) (*Champion, error) {
	z, err := zstd.NewReader(bytes.NewReader(shared), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("cycle: kept posterior: %w", err)
	}
	defer z.Close()
	var k kept
	if err := gob.NewDecoder(io.LimitReader(z, maxRecordBytes)).Decode(&k); err != nil {
		return nil, fmt.Errorf("cycle: kept posterior: %w", err)
	}
	k.Version = model.Manifest().Version
	return revive(m, model, &k)
}
