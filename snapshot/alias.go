package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/refitd/refitd/snapshot/durable"
)

// The aliases that refitd itself moves. Any other valid name can be set too.
const (
	Latest   = "latest"   // newest published version, promoted or not; moved by Publish
	Champion = "champion" // what consumers should use
)

const (
	aliasDir = "aliases"
	newAlias = ".new" // an alias that is being written
)

// Move sets an alias.
type Move struct {
	Alias string
	From  *int64 // the version it has to name now, 0 if it must not exist; nil is whatever it names. Compare and swap.
	To    int64  // version, or 0 to remove the alias
	Event Event  // for the publish log: EventPromote, EventRollback or EventAlias, which "" stands for
	Why   string // for the publish log
}

type namedPointer struct {
	name string
	Pointer
}

// MoveAlias carries out a move and writes it into the publish log, whose record it returns. The version is read and tested whole
// first, as Open does it. The alias is replaced at once and durably. It returns ErrConflict if the alias does not name move.From, ErrName,
// ErrNotFound, ErrDigest, ErrFormat or ErrGolden; nothing has changed then.
func (s *Store) MoveAlias(ctx context.Context, model string, move Move) (Record, error) {
	var record Record
	err := s.withModel(ctx, model, false, func(root *os.Root) error {
		now, err := s.expect(root, move)
		if err != nil {
			return err
		}
		record = Record{Event: move.Event, Version: move.To, Why: move.Why}
		if record.Event == "" {
			record.Event = EventAlias
		}
		if move.To != 0 {
			version, err := (Trust{Now: s.Now}).readVersion(root, model, Pointer{Version: move.To})
			if err != nil {
				return err
			}
			record.describe(&version.manifest)
		} else if now == nil || move.Alias == Latest {
			return fmt.Errorf("%w: no alias %s that can be removed", ErrNotFound, move.Alias)
		}
		return s.commit(root, model, &record, []Move{move})
	})
	if err != nil {
		return Record{}, fmt.Errorf("snapshot: alias %s of %s to version %d: %w", move.Alias, model, move.To, err)
	}
	return record, nil
}

// expect reads the alias that a move is about, nil if there is none, and returns ErrConflict if it does not name move.From.
func (s *Store) expect(root *os.Root, move Move) (*Pointer, error) {
	now, err := readAlias(root, move.Alias)
	switch {
	case errors.Is(err, ErrNotFound):
		if move.From != nil && *move.From != 0 {
			return nil, fmt.Errorf("%w: there is no alias %s, expected version %d: look at the publish log", ErrConflict, move.Alias, *move.From)
		}
		return nil, nil
	case err != nil:
		return nil, err
	case move.From != nil && now.Version != *move.From:
		return nil, fmt.Errorf("%w: %s names version %d, expected %d: look at that version before moving it again", ErrConflict, move.Alias, now.Version, *move.From)
	}
	return &now, nil
}

// commit moves aliases and appends the record of it, in this order: a writer killed in between leaves aliases with a sequence number
// that the log does not have, from which recover writes the record. The caller holds the lock.
func (s *Store) commit(root *os.Root, model string, record *Record, moves []Move) error {
	last, err := lastRecord(root) // no alias has a larger number: recoverLog saw to that
	if err != nil {
		return err
	}
	record.Sequence, record.Time, record.By = last.Sequence+1, s.Now().UTC().Truncate(time.Millisecond), s.By
	for _, move := range moves {
		old, err := readAlias(root, move.Alias)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		record.Moves = append(record.Moves, AliasMove{Alias: move.Alias, From: old.Version, To: move.To})
		if move.To == 0 {
			err = removeAlias(root, move.Alias)
		} else {
			p := Pointer{Version: move.To, ManifestDigest: record.ManifestDigest, Sequence: record.Sequence, Moved: record.Time, Event: record.Event}
			p.seal(model, move.Alias, s.Signer)
			err = s.writeAlias(root, move.Alias, &p)
		}
		if err != nil {
			return err
		}
	}
	return s.appendLog(root, record)
}

// Alias returns what an alias says, or ErrNotFound, ErrFormat or ErrDigest. Its signature is not looked at.
func (s *Store) Alias(model, alias string) (Pointer, error) {
	p, err := DirSource{Dir: s.dir}.look(model, alias)
	if err == nil {
		err = p.Verify(model, alias, nil)
	}
	if err != nil {
		return Pointer{}, fmt.Errorf("snapshot: alias %s of %s: %w", alias, model, err)
	}
	return p, nil
}

// Aliases returns the aliases of a model with the versions they name, or ErrNotFound if there is no such model.
func (s *Store) Aliases(model string) (map[string]int64, error) {
	pointers, err := inModel(s.dir, model, aliasesIn)
	if err != nil {
		return nil, fmt.Errorf("snapshot: aliases of %s: %w", model, err)
	}
	aliases := make(map[string]int64, len(pointers))
	for _, p := range pointers {
		aliases[p.name] = p.Version
	}
	return aliases, nil
}

// aliasesIn reads all aliases, sorted by name. An unreadable one is an error: Prune must not take a version that it may name.
func aliasesIn(root *os.Root) ([]namedPointer, error) {
	names, err := list(root, aliasDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var pointers []namedPointer
	for _, name := range names {
		if !validName.MatchString(name) {
			continue // a temporary file of writeAlias
		}
		p, err := readAlias(root, name)
		if err != nil {
			return nil, err
		}
		pointers = append(pointers, namedPointer{name, p})
	}
	return pointers, nil
}

// readAlias reads an alias file, whose digest the caller verifies. It returns ErrNotFound, ErrName or ErrFormat.
func readAlias(root *os.Root, alias string) (Pointer, error) {
	if !validName.MatchString(alias) {
		return Pointer{}, fmt.Errorf("%w: alias %q is not of the form %s", ErrName, alias, validName)
	}
	b, err := readFile(root, aliasDir+"/"+alias, maxAliasBytes)
	if errors.Is(err, fs.ErrNotExist) {
		names, _ := list(root, aliasDir) // only to say which there are
		slices.Sort(names)
		return Pointer{}, fmt.Errorf("%w: no alias %s (there is: %s): promote a version, or choose one by its number (--version)",
			ErrNotFound, alias, strings.Join(names, ", "))
	}
	if err != nil {
		return Pointer{}, err
	}
	return decodePointer(alias, b)
}

// writeAlias replaces an alias: temporary file, rename. The caller holds the lock.
func (s *Store) writeAlias(root *os.Root, alias string, p *Pointer) error {
	if !validName.MatchString(alias) {
		return fmt.Errorf("%w: alias %q is not of the form %s", ErrName, alias, validName)
	}
	b, err := p.encode()
	if err != nil {
		return err
	}
	dir, err := root.OpenRoot(aliasDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := s.step("snapshot.moving"); err != nil {
		return err
	}
	if err := errors.Join(durable.Create(dir, newAlias, 0o644, durable.Bytes(b)), s.step("snapshot.alias_written")); err != nil {
		return err
	}
	return errors.Join(durable.Rename(dir, newAlias, alias), s.step("snapshot.alias"))
}

func removeAlias(root *os.Root, alias string) error {
	dir, err := root.OpenRoot(aliasDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	return errors.Join(dir.Remove(alias), durable.SyncDir(dir))
}
