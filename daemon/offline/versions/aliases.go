package versions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"time"

	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/publish"
)

// MoveOptions say which alias an operator moves, and why. Without a SigningKey the alias is unsigned, which a store
// with signatures does not take: see signed.
type MoveOptions struct {
	offline.Versions

	Alias      string `placeholder:"champion" help:"Alias to move; champion by default."`
	Why        string `placeholder:"TEXT"     help:"Reason, for the publish log."`
	SigningKey string `placeholder:"FILE"     help:"Key that signs the alias, where versions are signed: by it, or by a --trusted-key."`
	// 0 is the verb's own choice
	Version int64            `                                                                                                                 kong:"-"`
	Now     func() time.Time `                                                                                                                 kong:"-"`

	offline.Trust
}

// open returns the store, as this user writes to it.
func (o *MoveOptions) open() (*publish.Store, error) {
	if err := o.Locate(); err != nil {
		return nil, err
	}
	if o.Alias == "" {
		o.Alias = pointer.Champion
	}
	store := publish.NewStore(o.Store)
	store.Now, store.By = o.Now, operator()
	if err := o.Attach(store); err != nil {
		return nil, err
	}
	t, err := o.Load(false)
	if err != nil {
		return nil, err
	}
	store.Keys = t.Keys
	if o.SigningKey == "" {
		return store, o.signed(store)
	}
	if store.Signer, err = format.LoadSigner(o.SigningKey); err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--signing-key", Path: o.SigningKey}
	}
	keys := store.Signer.Keys()
	maps.Copy(keys, t.Keys)
	store.Keys = keys
	return store, nil
}

// signed refuses to move an alias without a key where the alias, the newest version or the version asked for is signed:
// a daemon with keys moves such an alias back, and consumers with keys refuse it.
func (o *MoveOptions) signed(store *publish.Store) error {
	id, versions := "", []int64{o.Version}
	for _, alias := range []string{o.Alias, snapshot.Latest} {
		if p, err := store.Alias(o.Model, alias); err == nil {
			id, versions = cmp.Or(id, p.KeyID), append(versions, p.Version)
		}
	}
	for _, v := range versions {
		if m, err := store.Manifest(o.Model, v); err == nil {
			id = cmp.Or(id, m.KeyID)
		}
	}
	if id == "" {
		return nil
	}
	return &report.ExitError{Code: report.ExitUsage, Key: "--signing-key", Path: o.path(), Err: fmt.Errorf(
		"offline: %s is signed by key %s: sign the move as well (--signing-key FILE), or ask the daemon to make it (PUT "+
			"/v1/models/%s/aliases/%s)",
		o.Model,
		id,
		o.Model,
		o.Alias,
	)}
}

// operator names the user who runs this program, for the publish log.
func operator() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// path is what errors of the store are about.
func (o *MoveOptions) path() string { return filepath.Join(o.Store, o.Model) }

// move moves the alias from the version that it names now, and returns what was done.
func (o *MoveOptions) move(ctx context.Context, store *publish.Store, from int64,
	event pointer.Event) (*report.AliasMove, error) {
	record, err := store.MoveAlias(ctx, o.Model,
		publish.Move{Alias: o.Alias, From: &from, To: o.Version, Event: event, Why: o.Why})
	if err != nil {
		return nil, err
	}
	return &report.AliasMove{Model: o.Model, Alias: o.Alias, From: from, Version: o.Version, Sequence: record.Sequence,
		Time: report.Time(
			record.Time,
		), ManifestDigest: record.ManifestDigest, PayloadDigest: record.PayloadDigest, Why: record.Why, By: record.By}, nil
}

// current returns the version that the alias names, with any signer. The error is unknown where there is no such
// alias, or one that is damaged and that the log does not know.
func (o *MoveOptions) current(ctx context.Context, store *publish.Store) (int64, error) {
	unchecked := *store
	unchecked.Keys = nil
	p, err := unchecked.Alias(o.Model, o.Alias)
	if isDamaged(err) {
		if err = store.Recover(ctx, o.Model); err == nil {
			p, err = unchecked.Alias(o.Model, o.Alias)
		}
	}
	return p.Version, err
}

// unknown reports whether an error of current says that nobody knows what the alias named.
func unknown(err error) bool { return errors.Is(err, snapshot.ErrNotFound) || isDamaged(err) }

func isDamaged(err error) bool {
	return errors.Is(err, snapshot.ErrFormat) || errors.Is(err, snapshot.ErrDigest)
}

// Promote moves an alias to a version, by default the latest one, once the version is verified. Exit code 6 if there is
// no such version, 5 if it is damaged.
func Promote(ctx context.Context, o MoveOptions, out *report.Emitter) error {
	store, err := o.open()
	if err != nil {
		return err
	}
	if o.Version == 0 {
		latest, err := store.Alias(o.Model, snapshot.Latest)
		if err != nil {
			return offline.StoreError(err, o.path())
		}
		o.Version = latest.Version
	}
	from, err := o.current(ctx, store)
	if err != nil && !unknown(err) {
		return offline.StoreError(err, o.path())
	}
	move, err := o.move(ctx, store, from, publish.EventPromote)
	if err != nil {
		return offline.StoreError(err, o.path())
	}
	return out.Emit("summary", move)
}

// Rollback moves an alias back: to a version, or to the newest one of before the refit that it names now. Exit code 6
// if there is no such version.
func Rollback(ctx context.Context, o MoveOptions, out *report.Emitter) error {
	store, err := o.open()
	if err != nil {
		return err
	}
	from, err := o.current(ctx, store)
	if err != nil {
		return offline.StoreError(err, o.path())
	}
	candidates := []int64{o.Version}
	if o.Version == 0 {
		if candidates, err = before(store, o.Model, o.Alias); err != nil {
			return offline.StoreError(err, o.path())
		}
	}
	err = fmt.Errorf("%w: the publish log knows no version that %s named before: choose one (--version)",
		snapshot.ErrNotFound, o.Alias)
	for _, version := range candidates {
		var move *report.AliasMove
		o.Version = version
		if move, err = o.move(ctx, store, from, publish.EventRollback); err == nil {
			return out.Emit("summary", move)
		}
		if errors.Is(err, snapshot.ErrConflict) || ctx.Err() != nil {
			break
		}
	}
	return offline.StoreError(err, o.path())
}

// before lists the versions to roll an alias back to, best first: those that it named before the refit of its current
// version, as far as they are still there. What was rolled back is not gone back to.
func before(store *publish.Store, model, alias string) ([]int64, error) {
	versions, err := store.Versions(model)
	if err != nil {
		return nil, err
	}
	var stack [][]int64 // a refit with the updates of it that the alias named, oldest first
	for r, err := range store.Log(model) {
		if errors.Is(err, snapshot.ErrFormat) {
			continue // a damaged line must not prevent a rollback
		}
		if err != nil {
			return nil, err
		}
		for _, m := range r.Moves {
			if m.Alias != alias || m.To == 0 || m.To == m.From {
				continue
			}
			switch n := len(stack); {
			case r.Event == publish.EventRollback:
				stack = unwind(stack, m.To)
			case r.Kind == "update" && r.Event == publish.EventPublish && n > 0:
				stack[n-1] = append(stack[n-1], m.To)
			default:
				stack = append(stack, []int64{m.To})
			}
		}
	}
	var list []int64
	for i := len(stack) - 2; i >= 0; i-- {
		for _, v := range slices.Backward(stack[i]) {
			if slices.Contains(versions, v) && !slices.Contains(list, v) {
				list = append(list, v)
			}
		}
	}
	return list, nil
}

// unwind goes back to where the alias named a version.
func unwind(stack [][]int64, version int64) [][]int64 {
	for i := len(stack) - 1; i >= 0; i-- {
		if at := slices.Index(stack[i], version); at >= 0 {
			stack[i] = stack[i][:at+1]
			return stack[:i+1]
		}
	}
	return append(stack, []int64{version})
}

// AliasesOptions say whose aliases are listed, and whether they are repaired first.
type AliasesOptions struct {
	offline.Versions

	Repair     bool             `help:"First rebuild aliases that are damaged or missing from the publish log."`
	SigningKey string           `help:"With --repair, key that signs the aliases: the one of publish.signing_key_file." placeholder:"FILE"`
	Now        func() time.Time `                                                                                                          kong:"-"`
}

// Aliases lists the aliases of a model, and what lies among its versions, aliases and logs and is none. Exit code 5 if
// an alias is damaged, which --repair rebuilds as far as the publish log knows it.
func Aliases(ctx context.Context, o AliasesOptions, out *report.Emitter) error {
	if err := o.Locate(); err != nil {
		return err
	}
	path := filepath.Join(o.Store, o.Model)
	move := MoveOptions{Versions: o.Versions, SigningKey: o.SigningKey, Now: o.Now}
	store, err := move.open()
	if err != nil {
		return err
	}
	var rebuilt map[string]snapshot.Pointer
	if o.Repair {
		if rebuilt, err = store.Repair(ctx, o.Model); err != nil {
			return offline.StoreError(err, path)
		}
	}
	aliases, err := store.Aliases(o.Model)
	if err != nil {
		return offline.StoreError(err, path)
	}
	for _, name := range slices.Sorted(maps.Keys(aliases)) {
		p, err := store.Alias(o.Model, name)
		if err != nil {
			return offline.StoreError(err, path)
		}
		_, again := rebuilt[name]
		line := report.Alias{
			Model:          o.Model,
			Alias:          name,
			Version:        p.Version,
			ManifestDigest: p.ManifestDigest,
			Sequence:       p.Sequence,
			Event:          string(p.Event),
			Signature:      signatureOf(p.KeyID),
			Rebuilt:        again,
		}
		if !p.Moved.IsZero() {
			line.Moved = report.Time(p.Moved)
		}
		if err := out.Emit("alias", line); err != nil {
			return err
		}
	}
	if err := emitStrays(store, o.Model, path, out); err != nil {
		return err
	}
	return out.Emit("summary", report.AliasesSummary{Model: o.Model, Aliases: aliases})
}

// emitStrays emits what lies in the directory of a model and is no part of the store. Exit code 5 if an alias is
// damaged.
func emitStrays(store *publish.Store, model, path string, out *report.Emitter) error {
	strays, err := store.Strays(model)
	if err != nil {
		return offline.StoreError(err, path)
	}
	var damaged error
	for _, s := range strays {
		if s.Alias != "" && damaged == nil {
			damaged = fmt.Errorf(
				"alias %s is damaged: rebuild it (versions alias --repair) or set it (versions promote --alias %s): %w",
				s.Alias, s.Alias, s.Err)
		}
		if err := out.Emit("stray", report.Stray{Model: model, Path: s.Path, Alias: s.Alias,
			Reason: s.Err.Error()}); err != nil {
			return err
		}
	}
	if damaged != nil {
		return offline.StoreError(damaged, path)
	}
	return nil
}

// signatureOf says who signed something, as far as it says itself.
func signatureOf(keyID string) string {
	if keyID == "" {
		return "unsigned"
	}
	return "key " + keyID
}
