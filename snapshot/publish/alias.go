package publish

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/refitd/refitd/snapshot/durable"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/verify"
)

// Move sets an alias.
type Move struct {
	Alias string
	// the version it has to name now, 0 if it must not exist; nil is whatever it names. Compare and swap.
	From  *int64
	To    int64         // version, or 0 to remove the alias
	Event pointer.Event // for the publish log: EventPromote, EventRollback, EventRestored or EventAlias, which "" means
	Why   string        // for the publish log
	// Expired allows a version past the expiry in its manifest: the caller renews it.
	Expired bool
}

type namedPointer struct {
	name string
	pointer.Pointer
}

// MoveAlias carries out a move and writes it into the publish log, whose record it returns. The version is read and
// tested whole first, as Open does it. The alias is replaced at once and durably. It returns ErrConflict if the alias
// does not name move.From, ErrName, ErrNotFound, ErrDigest, ErrFormat or ErrGolden; nothing has changed then.
func (s *Store) MoveAlias(ctx context.Context, model string, move Move) (Record, error) {
	var record Record
	err := s.withModel(ctx, model, false, func(root *os.Root, last Numbers) error {
		now, err := s.expect(root, model, move)
		if err != nil {
			return err
		}
		record = Record{Event: move.Event, Version: move.To, Why: move.Why}
		if record.Event == "" {
			record.Event = EventAlias
		}
		if move.To != 0 {
			if s.Bucket != nil {
				if err := s.pullVersion(ctx, root, model, move.To, ""); err != nil {
					return err
				}
			}
			version, err := (verify.Trust{Keys: s.Keys, AllowExpired: move.Expired, Now: s.Now}).ReadVersion(root,
				model, pointer.Pointer{Version: move.To})
			if err != nil {
				return err
			}
			manifest := version.Manifest()
			record.describe(&manifest)
		} else if now == nil || move.Alias == pointer.Latest {
			return fmt.Errorf("%w: no alias %s that can be removed", disk.ErrNotFound, move.Alias)
		}
		return s.commit(ctx, root, model, last, &record, []Move{move})
	})
	if err != nil {
		return Record{}, fmt.Errorf("snapshot: alias %s of %s to version %d: %w", move.Alias, model, move.To, err)
	}
	return record, nil
}

// expect reads the alias that a move is about, nil if it does not exist. It returns ErrConflict if the alias does not
// name move.From. What a damaged alias named is unknown if the log could not rebuild it: every move may replace it.
// One that none of the store's keys signed, or whose version they did not, names nothing and is replaced, too.
func (s *Store) expect(root *os.Root, model string, move Move) (*pointer.Pointer, error) {
	now, err := soundAlias(root, model, move.Alias)
	switch {
	case isDamage(err):
		return nil, nil
	case err == nil && (s.forged(model, move.Alias, &now) != nil || s.forgedVersion(root, model, now.Version)):
		if s.Untrusted != nil {
			s.Untrusted(move.Alias, now)
		}
		return &now, nil
	case errors.Is(err, disk.ErrNotFound):
		if move.From != nil && *move.From != 0 {
			return nil, fmt.Errorf("%w: there is no alias %s, expected version %d: look at the publish log",
				disk.ErrConflict, move.Alias, *move.From)
		}
		return nil, nil
	case err != nil:
		return nil, err
	case move.From != nil && now.Version != *move.From:
		return nil, fmt.Errorf("%w: %s names version %d, expected %d: look at that version before moving it again",
			disk.ErrConflict, move.Alias, now.Version, *move.From)
	}
	return &now, nil
}

// commit moves aliases and appends the record of it, in this order: a writer killed in between leaves aliases with a
// sequence number that the log does not have, from which recover writes the record. The caller holds the lock, under
// which last was found.
func (s *Store) commit(ctx context.Context, root *os.Root, model string, last Numbers, record *Record,
	moves []Move) error {
	sequence := last.Sequence + 1
	for _, move := range moves { // readers without keys took a forged alias: they are to take the next one, too
		if old, err := soundAlias(root, model, move.Alias); err == nil && old.Plausible() == nil {
			sequence = max(sequence, old.Sequence+1)
		}
	}
	next, err := s.reserve(model, Numbers{Sequence: sequence})
	if err != nil {
		return err
	}
	record.Sequence, record.Time, record.By = next.Sequence, s.Now().UTC().Truncate(time.Millisecond), s.By
	for _, move := range moves {
		old, err := soundAlias(root, model, move.Alias)
		if err != nil && !errors.Is(err, disk.ErrNotFound) && !isDamage(err) {
			return err
		}
		record.Moves = append(record.Moves, AliasMove{Alias: move.Alias, From: old.Version, To: move.To})
		if move.To == 0 {
			if err = s.dropAlias(ctx, model, move.Alias); err == nil {
				err = removeAlias(root, move.Alias)
			}
		} else {
			p := pointer.Pointer{Version: move.To, ManifestDigest: record.ManifestDigest, Sequence: record.Sequence,
				Moved: record.Time,
				Event: record.Event}
			p.Seal(model, move.Alias, s.Signer)
			if err = s.pushAlias(ctx, root, model, move.Alias, &p); err == nil {
				err = s.writeAlias(root, move.Alias, &p)
			}
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(s.appendLog(root, record), s.pushLog(ctx, root, model))
}

// Alias returns what an alias says, with its renewal, or ErrNotFound, ErrFormat, ErrDigest or ErrSignature.
func (s *Store) Alias(model, alias string) (pointer.Pointer, error) {
	p, err := disk.InModel(s.dir, model, func(root *os.Root) (pointer.Pointer, error) {
		p, err := verify.ReadAlias(root, alias)
		if err == nil {
			verify.ReadRenewal(root, alias, &p)
		}
		return p, err
	})
	if err == nil {
		err = p.Verify(model, alias, s.Keys)
		p.Renewal = p.VerifyRenewal(model, alias, s.Keys)
	}
	if err != nil {
		return pointer.Pointer{}, fmt.Errorf("snapshot: alias %s of %s: %w", alias, model, err)
	}
	return p, nil
}

// Aliases returns the aliases of a model with the versions they name, or ErrNotFound if there is no such model. What is
// no alias, or a damaged one, is left out: Strays lists it. So is one that none of Keys signed.
func (s *Store) Aliases(model string) (map[string]int64, error) {
	pointers, err := disk.InModel(s.dir, model, func(root *os.Root) ([]namedPointer, error) {
		pointers, _, err := aliasesIn(root, model)
		return pointers, err
	})
	if err != nil {
		return nil, fmt.Errorf("snapshot: aliases of %s: %w", model, err)
	}
	aliases := make(map[string]int64, len(pointers))
	for _, p := range pointers {
		if s.forged(model, p.name, &p.Pointer) == nil {
			aliases[p.name] = p.Version
		}
	}
	return aliases, nil
}

// aliasesIn reads all aliases, sorted by name, and lists what else is among them, with its bare name as the path.
func aliasesIn(root *os.Root, model string) (pointers []namedPointer, odd []Stray, err error) {
	names, err := disk.List(root, disk.AliasDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		if name == disk.NewAlias {
			continue // that is being written
		}
		p, err := soundAlias(root, model, name)
		switch {
		case err == nil:
			pointers = append(pointers, namedPointer{name, p})
		case errors.Is(err, disk.ErrNotFound): // removed since the directory was listed
		case isDamage(err), errors.Is(err, disk.ErrName):
			odd = append(odd, Stray{Path: name, Err: err})
		default:
			return nil, nil, err
		}
	}
	return pointers, odd, nil
}

// isDamage reports whether a file is not what belongs there, whatever it is.
func isDamage(err error) bool {
	return errors.Is(err, disk.ErrFormat) || errors.Is(err, disk.ErrDigest)
}

// soundAlias reads an alias and verifies its digest; whose it is the caller asks.
func soundAlias(root *os.Root, model, alias string) (pointer.Pointer, error) {
	p, err := verify.ReadAlias(root, alias)
	if err == nil {
		err = p.Sound(model, alias)
	}
	if err != nil {
		return pointer.Pointer{}, err
	}
	return p, nil
}

// writeAlias replaces an alias: temporary file, rename. The caller holds the lock.
func (s *Store) writeAlias(root *os.Root, alias string, p *pointer.Pointer) error {
	if !disk.ValidName.MatchString(alias) {
		return fmt.Errorf("%w: alias %q is not of the form %s", disk.ErrName, alias, disk.ValidName)
	}
	b, err := p.Encode()
	if err != nil {
		return err
	}
	if err := root.MkdirAll(disk.AliasDir, 0o755); err != nil { // it may have been lost
		return err
	}
	dir, err := root.OpenRoot(disk.AliasDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := s.Step("snapshot.moving"); err != nil {
		return err
	}
	if err := errors.Join(durable.Create(dir, disk.NewAlias, 0o644, durable.Bytes(b)), s.Step(
		"snapshot.alias_written")); err != nil {
		return err
	}
	if err := clearWay(dir, alias); err != nil {
		return err
	}
	return errors.Join(durable.Rename(dir, disk.NewAlias, alias), s.Step("snapshot.alias"))
}

func removeAlias(root *os.Root, alias string) error {
	dir, err := root.OpenRoot(disk.AliasDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	return errors.Join(dir.Remove(alias), durable.SyncDir(dir))
}
