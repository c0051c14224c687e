package sketch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/refitd/refitd/sketch/internal/audit"
	"github.com/refitd/refitd/sketch/internal/backup"
	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/storage"
	"github.com/refitd/refitd/sketch/internal/witness"
)

// Backup writes a consistent cut of everything in the store, and the files of the given names in the state directory,
// those that exist. It checks the rows as it goes. Apply may run concurrently.
func (s *Store) Backup(w io.Writer, files ...string) (*BackupHeader, error) {
	out := backup.NewWriter(w)
	header := &BackupHeader{
		Format:     codec.FormatVersion,
		Lineage:    s.settings.Lineage,
		ConfigHash: s.settings.ConfigHash,
		Positions:  []Position{},
	}
	err := s.backend.View(func(c storage.Cut) error {
		acc, err := s.frame().Scan(context.Background(), c, func(*audit.Scanned) error { return nil })
		if err != nil {
			return err
		}
		for i := range acc.Ledger[:acc.Current] {
			header.Positions = append(header.Positions, acc.Ledger[i].Position())
		}
		if err := out.Header(header); err != nil {
			return err
		}
		return c.Each(nil, out.Pair)
	})
	for _, name := range files {
		if err != nil {
			break
		}
		var content []byte
		if content, err = os.ReadFile(filepath.Join(s.home.dir, name)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		} else if err == nil {
			err = out.File(name, content)
		}
	}
	if err == nil {
		err = out.End()
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		return nil, fmt.Errorf("sketch: backup: %w", err)
	}
	return header, nil
}

// Restore makes a state in dir, which must not hold one, from what Backup wrote. files are the names of the files in
// the state directory that are restored with the database. Nothing is left in dir if it fails: the error wraps
// ErrCorrupt if the backup is damaged, ErrFormat if it is of a later version.
func Restore(ctx context.Context, dir string, r io.Reader, log *slog.Logger,
	files ...string) (_ *BackupHeader, err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := (storage.Place{Dir: dir, MemTableBytes: DefaultMemTableBytes}).Preflight(false, nil); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.Denied(err)
	}
	rows := filepath.Join(dir, rowsName)
	if err := os.Mkdir(rows, 0o700); err != nil {
		return nil, fault.Denied(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	d, err := storage.OpenDisk(rows, DefaultMemTableBytes, log)
	if err != nil {
		return nil, err
	}
	header, err := backup.Read(ctx, r, d, dir, files)
	var s *Store
	if err == nil {
		s, err = load(ctx, d, &Options{}, func(stored *policy.Settings) (policy.Settings, error) {
			if stored == nil {
				return policy.Settings{}, backup.Damaged("the backup has no settings")
			}
			return *stored, nil
		})
	}
	if err == nil {
		err = s.Check()
	}
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	w, err := s.witnessOf()
	if err == nil {
		err = witness.Write(w, dir)
	}
	if err != nil {
		return nil, err
	}
	return header, nil
}
