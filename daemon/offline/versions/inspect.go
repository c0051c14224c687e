package versions

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/diff"
	"github.com/refitd/refitd/daemon/export"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/publish"
)

// BOM returns the bill of materials of a version, once its files and golden events were found to be as published.
func BOM(ref offline.SnapshotRef) ([]byte, error) {
	m, err := ref.Open()
	if err != nil {
		return nil, err
	}
	manifest := m.Manifest()
	if cut, err := publish.NewStore(ref.Store).Cut(&manifest); err == nil { // else no cut is shown
		manifest.Cut = cut
	}
	return export.BOM(&manifest)
}

// InspectSnapshot emits the manifest and the aliases of a version, whether its files are those that were published, and
// whether this build scores its golden events as published. A version that fails either is exit code 5; so is a
// manifest that cannot be trusted, of which nothing is shown. entity is FIELD=NAME of a name to show what the version
// and its tables know of, or empty.
func InspectSnapshot(ref offline.SnapshotRef, entity string, out *report.Emitter) error {
	field, name, named := strings.Cut(entity, "=")
	if entity != "" && !named {
		return offline.Usage("--entity", "%q is not FIELD=NAME, such as item=i17", entity)
	}
	if err := ref.Locate(); err != nil {
		return err
	}
	store, path := publish.NewStore(ref.Store), filepath.Join(ref.Store, ref.Model)
	t, err := ref.Load(true)
	if err != nil {
		return err
	}
	aliases, err := store.Aliases(ref.Model)
	if err != nil {
		return offline.StoreError(err, path)
	}
	version := ref.Version
	if version == 0 {
		alias := ref.Alias
		if alias == "" {
			alias = pointer.Champion
		}
		pointer, err := store.Alias(ref.Model, alias)
		if err != nil {
			return offline.StoreError(err, path)
		}
		version = pointer.Version
	}
	manifest, err := store.Manifest(ref.Model, version)
	if err != nil {
		return offline.StoreError(err, path)
	}
	if cut, err := store.Cut(&manifest); err == nil { // else Open says what is wrong with it
		manifest.Cut = cut
	}
	m, damage := t.Open(ref.Store, ref.Model, ref.Selector()) // by its alias, which pins the manifest
	if errors.Is(damage, snapshot.ErrSignature) {
		return offline.StoreError(damage, path)
	}
	v := fitted.VersionOf(&manifest)
	v.Gate = diff.MetricsOf(manifest.Gate)
	inspection := report.SnapshotInspection{
		Manifest:   manifest,
		Aliases:    aliases,
		Signature:  signatureOf(manifest.KeyID),
		Optimality: v.OptimalityHeldOut(),
		FilesOK:    damage == nil || errors.Is(damage, snapshot.ErrGolden),
		GoldenOK:   damage == nil,
	}
	if damage == nil {
		if m.SignedBy() != "" {
			inspection.Signature += ", trusted"
		}
		inspection.Belief = diff.Believes(m)
		inspection.Belief.Lineage = append(inspection.Belief.Lineage, ancestors(store, &manifest)...)
		if named {
			if inspection.Entity, err = diff.Entity(m, field, name); err != nil {
				return offline.Usage("--entity", "%q is no field with names of this model: it has %s", field,
					strings.Join(manifest.Schema.Named(), ", "))
			}
		}
	}
	if err := out.Emit("snapshot", inspection); err != nil {
		return err
	}
	if damage != nil {
		return &report.ExitError{Code: report.ExitState, Err: damage, Path: path}
	}
	return out.Emit("summary", report.Empty{})
}

// maxAncestors bounds the line of parents that is shown.
const maxAncestors = 20

// ancestors returns the parents of a version, nearest first, until one is not in the store any more.
func ancestors(store *publish.Store, m *snapshot.Manifest) []report.Ancestor {
	var line []report.Ancestor
	for parent := m.Parent; parent != nil && len(line) < maxAncestors; {
		p, err := store.Manifest(m.Model, *parent)
		if err != nil {
			break
		}
		line = append(line,
			report.Ancestor{Version: p.Version, Kind: p.Kind, Decision: p.Decision, Created: report.Time(p.Created)})
		parent = p.Parent
	}
	return line
}
