package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// The aliases that refitd itself moves. Any other valid name can be set too.
const (
	Latest   = "latest"   // newest published version, promoted or not; moved by Publish
	Champion = "champion" // what consumers should use
)

const aliasDir = "aliases"

// pointer is the content of an alias file: it names a version and pins its manifest.
type pointer struct {
	Version        int64  `json:"version"`
	ManifestDigest string `json:"manifest_digest"`
}

type namedPointer struct {
	name string
	pointer
}

// SetAlias lets an alias name a version, whose manifest is verified first. The alias is replaced at once and durably. It returns ErrName,
// ErrNotFound, ErrDigest or ErrFormat.
func (s *Store) SetAlias(ctx context.Context, model, alias string, version int64) error {
	return s.moveAlias(ctx, model, alias, nil, version)
}

// SwapAlias is SetAlias if the alias still names the version old, where 0 stands for an alias that does not exist; otherwise it changes
// nothing and returns ErrConflict. It decides between several instances that publish to one store.
func (s *Store) SwapAlias(ctx context.Context, model, alias string, old, version int64) error {
	return s.moveAlias(ctx, model, alias, &old, version)
}

func (s *Store) moveAlias(ctx context.Context, model, alias string, old *int64, version int64) error {
	err := s.withModel(ctx, model, false, func(root *os.Root) error {
		if old != nil {
			now, err := readAlias(root, alias)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			if now.Version != *old {
				return fmt.Errorf("%w: it names version %d, expected %d: look at that version before moving it again", ErrConflict, now.Version, *old)
			}
		}
		dir, m, err := openVersion(root, model, version)
		if err != nil {
			return err
		}
		return errors.Join(dir.Close(), writeAlias(root, alias, pointer{version, m.Digest}))
	})
	if err != nil {
		return fmt.Errorf("snapshot: alias %s of %s to version %d: %w", alias, model, version, err)
	}
	return nil
}

// Alias returns the version that an alias names, or ErrNotFound.
func (s *Store) Alias(model, alias string) (int64, error) {
	root, err := openModel(s.dir, model)
	if err != nil {
		return 0, fmt.Errorf("snapshot: alias %s of %s: %w", alias, model, err)
	}
	defer root.Close()
	p, err := readAlias(root, alias)
	if err != nil {
		return 0, fmt.Errorf("snapshot: alias %s of %s: %w", alias, model, err)
	}
	return p.Version, nil
}

// Aliases returns the aliases of a model with the versions they name, or ErrNotFound if there is no such model.
func (s *Store) Aliases(model string) (map[string]int64, error) {
	root, err := openModel(s.dir, model)
	if err != nil {
		return nil, fmt.Errorf("snapshot: aliases of %s: %w", model, err)
	}
	defer root.Close()
	pointers, err := aliasesIn(root)
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

// maxAliasBytes is more than any alias file has.
const maxAliasBytes = 256

func (p pointer) encode() ([]byte, error) {
	b, err := json.Marshal(p)
	return append(b, '\n'), err
}

// readAlias returns ErrNotFound, ErrName or ErrFormat.
func readAlias(root *os.Root, alias string) (pointer, error) {
	if !validName.MatchString(alias) {
		return pointer{}, fmt.Errorf("%w: alias %q is not of the form %s", ErrName, alias, validName)
	}
	b, err := readFile(root, aliasDir+"/"+alias, maxAliasBytes)
	if errors.Is(err, fs.ErrNotExist) {
		names, _ := list(root, aliasDir) // only to say which there are
		slices.Sort(names)
		return pointer{}, fmt.Errorf("%w: no alias %s (there is: %s): promote a version, or choose one by its number (--version)", ErrNotFound, alias, strings.Join(names, ", "))
	}
	if err != nil {
		return pointer{}, err
	}
	var p pointer
	if err := json.Unmarshal(b, &p); err != nil {
		return pointer{}, fmt.Errorf("alias %s: %w: %v: set it again", alias, ErrFormat, err)
	}
	if again, err := p.encode(); err != nil || string(again) != string(b) || p.Version < 1 || p.Version > maxVersion {
		return pointer{}, fmt.Errorf("alias %s: %w: %q: set it again", alias, ErrFormat, b)
	}
	return p, nil
}

// writeAlias replaces an alias: temporary file, rename. The caller holds the lock.
func writeAlias(root *os.Root, alias string, p pointer) error {
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
	if err := writeFile(dir, ".new", b); err != nil {
		return err
	}
	if err := dir.Rename(".new", alias); err != nil {
		return err
	}
	return errors.Join(syncDir(dir), failpoint("snapshot.alias"))
}
