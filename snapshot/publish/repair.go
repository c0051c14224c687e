package publish

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/refitd/refitd/snapshot/durable"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/verify"
)

// Stray is something in the directory of a model that is no part of the store. It is never read, changed or removed,
// and hinders no writer or reader.
type Stray struct {
	Path  string // below the store, with slashes
	Alias string // name of an alias that is damaged; "" is something that does not belong there
	Err   error  // what is wrong with it
}

// aside begins the new name of something that stood where a file of the store has to be.
const aside = ".aside-"

// Strays lists what is found among the aliases, versions and logs of a model that is none of them, sorted by path. A
// damaged alias is one that the publish log knows, or any while the log says nothing: Repair rebuilds it, a move of it
// replaces it. It returns ErrNotFound if there is no such model.
func (s *Store) Strays(model string) ([]Stray, error) {
	strays, err := disk.InModel(s.dir, model, func(root *os.Root) ([]Stray, error) {
		_, odd, err := aliasesIn(root, model)
		if err != nil {
			return nil, err
		}
		logged, err := standingAliases(root)
		if err != nil {
			return nil, err
		}
		for i := range odd {
			if name := odd[i].Path; isDamaged(name, logged) {
				odd[i].Alias = name
			}
			odd[i].Path = disk.AliasDir + "/" + odd[i].Path
		}
		more, err := strayVersions(root, model)
		return append(odd, more...), err
	})
	if err != nil {
		return nil, fmt.Errorf("snapshot: strays of %s: %w", model, err)
	}
	for i := range strays {
		strays[i].Path = model + "/" + strays[i].Path
	}
	slices.SortFunc(strays, func(a, b Stray) int { return strings.Compare(a.Path, b.Path) })
	return strays, nil
}

// isDamaged reports whether what cannot be read as an alias was one, given what the log knows.
func isDamaged(name string, logged map[string]Record) bool {
	_, known := logged[name]
	return known || name == pointer.Latest || name == pointer.Champion || len(logged) == 0 && disk.ValidName.MatchString(
		name)
}

// strayVersions lists what the directory of a model has in addition to its files, and what looks like a version
// without being one.
func strayVersions(root *os.Root, model string) (strays []Stray, err error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := e.Name()
		_, isAside := asideSequence(name)
		switch {
		case disk.VersionNumber(name) > 0:
			dir, _, err := verify.OpenVersion(root, model, disk.VersionNumber(name), nil)
			if err == nil {
				err = dir.Close()
			}
			if err != nil {
				strays = append(strays, Stray{Path: name, Err: err})
			}
		case e.IsDir() && slices.Contains([]string{disk.AliasDir, disk.RenewalDir, "samples"}, name):
		case e.Type().IsRegular() && slices.Contains([]string{lockFile, deltaLockFile, logFile, "forgotten"}, name):
		case isAside && e.Type().IsRegular():
		case strings.HasPrefix(name, staging): // removed by the next writer
		default:
			strays = append(strays,
				Stray{Path: name, Err: fmt.Errorf("%w: no version, no log (%s)", disk.ErrFormat, kindOf(e.Type()))})
		}
	}
	return strays, nil
}

func kindOf(mode fs.FileMode) string {
	if mode.IsRegular() {
		return "a file"
	}
	return mode.String()
}

// Repair rebuilds aliases from the publish log: those that are damaged, and those that are missing. Each comes back as
// it was, with the number of its last move, signed by s.Signer. It returns what it rebuilt, by name. What the log does
// not know stays as it is: Strays lists it.
func (s *Store) Repair(ctx context.Context, model string) (rebuilt map[string]pointer.Pointer, err error) {
	err = s.locked(ctx, model, lockFile, false, func(root *os.Root) error {
		if err = s.pull(ctx, root, model); err == nil {
			_, rebuilt, err = s.tidy(root, model, true)
		}
		if err == nil {
			err = s.push(ctx, root, model)
		}
		return err
	})
	if err != nil {
		return rebuilt, fmt.Errorf("snapshot: repair %s: %w", model, err)
	}
	return rebuilt, nil
}

// tidy removes what killed publishers left, rebuilds aliases and completes the log. It returns the newest version and
// the last move there are, of those that a writer continues from. The caller holds the lock.
func (s *Store) tidy(root *os.Root, model string, missing bool) (last Numbers, rebuilt map[string]pointer.Pointer,
	err error) {
	names, err := sweep(root)
	if err = errors.Join(err, clearWay(root, logFile)); err != nil {
		return last, nil, err
	}
	last.Version = newestVersion(root, names)
	if rebuilt, err = s.rebuild(root, model, missing); err == nil {
		last.Sequence, err = s.recoverLog(root, model, last.Version)
	}
	return last, rebuilt, err
}

// sweep removes staging directories and the temporary alias, and returns the names that were in the directory. The
// caller holds the lock, so nobody is writing what is removed.
func sweep(root *os.Root) (names []string, err error) {
	if err := root.RemoveAll(disk.AliasDir + "/" + disk.NewAlias); err != nil {
		return nil, err
	}
	if names, err = disk.List(root, "."); err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasPrefix(name, staging) {
			if err := root.RemoveAll(name); err != nil {
				return nil, err
			}
		}
	}
	return names, nil
}

// newestVersion returns the newest version among the names in a directory, of those whose number counting can have come
// to, 0 for none.
func newestVersion(root *os.Root, names []string) int64 {
	for _, v := range slices.Backward(disk.NumbersOf(names)) {
		if v <= pointer.MaxPlausible/2 && disk.IsVersion(root, v) {
			return v
		}
	}
	return 0
}

// rebuild is what every writer does about damaged aliases, about a missing champion, and about other missing ones if
// latest is missing, too: then it was not an operator who removed one. The caller holds the lock.
func (s *Store) rebuild(root *os.Root, model string, missing bool) (map[string]pointer.Pointer, error) {
	aliases, odd, err := aliasesIn(root, model)
	if err != nil {
		return nil, err
	}
	there := func(name string) bool {
		return slices.ContainsFunc(aliases, func(p namedPointer) bool { return p.name == name })
	}
	missing = missing || !there(pointer.Latest)
	odd = slices.DeleteFunc(odd, func(f Stray) bool { return !disk.ValidName.MatchString(f.Path) })
	if len(odd) == 0 && !missing && there(pointer.Champion) {
		return nil, nil
	}
	logged, err := standingAliases(root)
	if err != nil {
		return nil, err
	}
	rebuilt := make(map[string]pointer.Pointer)
	for _, name := range slices.Sorted(maps.Keys(logged)) {
		damaged := slices.ContainsFunc(odd, func(f Stray) bool { return f.Path == name })
		if there(name) || !damaged && !missing && name != pointer.Champion {
			continue
		}
		p, err := s.recall(root, model, name, logged[name])
		if err != nil {
			s.logger().
				Warn("alias not rebuilt: promote a version to set it", "model", model, "alias", name, "error", err)
			continue
		}
		if err := s.writeAlias(root, name, &p); err != nil {
			return rebuilt, err
		}
		rebuilt[name] = p
		s.logger().
			Warn("alias rebuilt from the publish log", "model", model, "alias", name, "version", p.Version, "sequence",
				p.Sequence)
	}
	return rebuilt, nil
}

// recall returns the pointer that a record of the log set. The version has to be there, with the manifest that the
// record names and, if the aliases of this store are signed, by the same key: nobody gets another's version signed by
// way of the log.
func (s *Store) recall(root *os.Root, model, alias string, r Record) (pointer.Pointer, error) {
	version := int64(0)
	for _, m := range r.Moves {
		if m.Alias == alias {
			version = m.To
		}
	}
	trust := verify.Trust{Now: s.Now, AllowExpired: true}
	if trust.Keys = s.Keys; s.Keys == nil && s.Signer != nil {
		trust.Keys = s.Signer.Keys()
	}
	pinned := pointer.Pointer{Version: version}
	if version == r.Version {
		pinned.ManifestDigest = r.ManifestDigest
	}
	m, err := trust.ReadVersion(root, model, pinned)
	if err != nil {
		return pointer.Pointer{}, err
	}
	p := pointer.Pointer{
		Version:        version,
		ManifestDigest: m.Manifest().Digest,
		Sequence:       r.Sequence,
		Moved:          r.Time,
		Event:          r.Event,
	}
	p.Seal(model, alias, s.Signer)
	return p, nil
}

// standingAliases returns the record that set each alias last, as far as it was not removed since. The log's newest
// file has all of them; a line that cannot be read is passed over.
func standingAliases(root *os.Root) (map[string]Record, error) {
	standing := make(map[string]Record)
	f, err := openLog(root)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, disk.ErrFormat) {
		return standing, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for r, err := range linesOf(f) {
		if errors.Is(err, disk.ErrFormat) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, m := range r.Moves {
			switch {
			case m.To == 0:
				delete(standing, m.Alias)
			case disk.ValidName.MatchString(m.Alias):
				standing[m.Alias] = r
			}
		}
	}
	return standing, nil
}

// clearWay makes room for a file of the store: what has its name and is no regular file gets another name.
func clearWay(dir *os.Root, name string) error {
	st, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && st.Mode().IsRegular() {
		return nil
	}
	if err != nil {
		return err
	}
	return durable.Rename(dir, name, aside+name+"-"+rand.Text())
}

// logger returns Logger, or one that logs nothing.
func (s *Store) logger() *slog.Logger {
	if s.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Logger
}
