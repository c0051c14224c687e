// Package reproduce keeps the samples of refits in the store of their versions, and makes a refit again from one. It
// neither reads topics nor publishes.
package reproduce

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/durable"
	"github.com/refitd/refitd/snapshot/publish"
)

// Kept samples are files <store>/<model>/samples/<hex of their SHA-256>.zst, named by their content: they are written
// before the version that names them has a number. Readers of versions never look there. So are posteriors that
// shards of a model continue from.
const (
	directory = "samples"
	extension = ".zst"
	prefix    = "sha256:"
)

// ErrDigest is returned for a kept sample that is not the one its version names.
var ErrDigest = errors.New("reproduce: the kept sample is damaged")

// Keep writes the record of a refit to the store of a model's versions and returns its digest, for the manifest. It
// is durable when Keep returns.
func Keep(store, model string, record []byte) (digest string, err error) {
	sum := sha256.Sum256(record)
	name := hex.EncodeToString(sum[:])
	dir := filepath.Join(store, model, directory)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("reproduce: keep: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(dir, name+extension), 0o600, durable.Bytes(record)); err != nil {
		return "", fmt.Errorf("reproduce: keep: %w", err)
	}
	return prefix + name, nil
}

// Open reads the record of the refit that a version is, verified against its manifest. It returns task.ErrNotKept or
// ErrDigest.
func Open(store string, m *snapshot.Manifest) (*task.Record, error) {
	b, err := read(store, m, m.KeptSample)
	if err != nil {
		return nil, err
	}
	return task.ReadRecord(b)
}

// read reads what Keep wrote.
func read(store string, m *snapshot.Manifest, digest string) ([]byte, error) {
	name, ok := strings.CutPrefix(digest, prefix)
	if sum, err := hex.DecodeString(name); !ok || err != nil || len(sum) != sha256.Size {
		return nil, fmt.Errorf("reproduce: version %d: %w", m.Version, task.ErrNotKept)
	}
	path := filepath.Join(store, m.Model, directory, name+extension)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reproduce: version %d: %s is gone: %w", m.Version, path, task.ErrNotKept)
	}
	if err != nil {
		return nil, fmt.Errorf("reproduce: version %d: %w", m.Version, err)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != name {
		return nil, fmt.Errorf("%w: %s has SHA-256 %x: restore the file", ErrDigest, path, sum)
	}
	return b, nil
}

// Forget removes the kept samples of a model that hold a row for which names is true, and those that cannot be read,
// and returns how many. Their versions stay and cannot be reproduced any more: a sample without some of its rows is not
// what they were trained on.
func Forget(store, model string, names func(m *config.Model, payload []byte) (bool, error)) (removed int, err error) {
	dir := filepath.Join(store, model, directory)
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reproduce: forget: %w", err)
	}
	for _, f := range files {
		if f.IsDir() {
			continue // none of ours
		}
		path := filepath.Join(dir, f.Name())
		b, err := os.ReadFile(path)
		if err != nil {
			return removed, fmt.Errorf("reproduce: forget: %w", err)
		}
		if record, err := task.ReadRecord(b); err == nil && !anyRow(record, names) {
			continue
		}
		if err := os.Remove(path); err != nil {
			return removed, fmt.Errorf("reproduce: forget: %w", err)
		}
		removed++
	}
	return removed, nil
}

// anyRow reports whether names is true for a row, or fails.
func anyRow(record *task.Record, names func(m *config.Model, payload []byte) (bool, error)) bool {
	s := record.Sample
	is := func(payload []byte) bool {
		named, err := names(record.Model, payload)
		return named || err != nil
	}
	found := slices.ContainsFunc(slices.Concat(s.Train, s.Select, s.Gate), is)
	s.Tables().EachNamed(func(payload []byte) bool {
		found = found || is(payload)
		return !found
	})
	return found
}

// Prune removes the kept samples of a model that no version in the store names any more and that are older. The version
// of a new one may be about to be published by another process.
func Prune(s *publish.Store, store, model string, than time.Duration) error {
	dir := filepath.Join(store, model, directory)
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reproduce: prune: %w", err)
	}
	every := *s
	every.Keys = nil // what its writer's keys did not sign is not its writer's to remove
	s = &every
	versions, err := s.Versions(model)
	if err != nil {
		return fmt.Errorf("reproduce: prune: %w", err)
	}
	named := make(map[string]bool)
	for _, v := range versions {
		m, err := s.Manifest(model, v)
		if errors.Is(err, snapshot.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil // which sample is its own is not known: all stay
		}
		named[strings.TrimPrefix(m.KeptSample, prefix)+extension] = true
	}
	for _, f := range files {
		if isKept(f) && !named[f.Name()] && isOlder(f, than) {
			if err := os.Remove(filepath.Join(dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("reproduce: prune: %w", err)
			}
		}
	}
	return nil
}

func isOlder(f fs.DirEntry, than time.Duration) bool {
	info, err := f.Info()
	return err == nil && time.Since(info.ModTime()) >= than
}

// isKept reports whether a file is a kept sample, or what a crash left of one. Everything else stays.
func isKept(f fs.DirEntry) bool {
	sum, ok := strings.CutSuffix(f.Name(), extension)
	_, err := hex.DecodeString(sum)
	return f.Type().IsRegular() &&
		(ok && err == nil && len(sum) == hex.EncodedLen(sha256.Size) || strings.HasPrefix(f.Name(), ".tmp-"))
}
