package versions

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"

	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/publish"
)

// List lists the published versions of a model, oldest first, with the aliases that name them, and what lies in the
// store and is none. Exit code 5 if an alias is damaged.
func List(v offline.Versions, out *report.Emitter) error {
	if err := v.Locate(); err != nil {
		return err
	}
	store, path := publish.NewStore(v.Store), filepath.Join(v.Store, v.Model)
	numbers, err := store.Versions(v.Model)
	if err != nil {
		return offline.StoreError(err, path)
	}
	aliases, err := store.Aliases(v.Model)
	if err != nil {
		return offline.StoreError(err, path)
	}
	summary := report.ListSummary{Model: v.Model, Aliases: aliases}
	for _, number := range numbers {
		m, err := store.Manifest(v.Model, number)
		if errors.Is(err, snapshot.ErrNotFound) { // it was pruned since
			continue
		}
		if err != nil {
			return offline.StoreError(err, path)
		}
		line := report.ListedVersion{Model: m.Model, Version: m.Version, Kind: m.Kind, Parent: m.Parent,
			Created: report.Time(m.Created), K: m.NumBasis, Rows: m.Rows, Decision: m.Decision, Aliases: []string{},
			ManifestDigest: m.Digest, PayloadDigest: m.PayloadDigest, Signature: signatureOf(m.KeyID)}
		for _, alias := range slices.Sorted(maps.Keys(aliases)) {
			if aliases[alias] == m.Version {
				line.Aliases = append(line.Aliases, alias)
			}
		}
		summary.Versions++
		if err := out.Emit("version", line); err != nil {
			return err
		}
	}
	if err := emitStrays(store, v.Model, path, out); err != nil {
		return err
	}
	return out.Emit("summary", summary)
}
