package state

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/crash"
	"github.com/refitd/refitd/snapshot/durable"
)

// notes are the files of a state directory that a start can do without.
var notes = slices.Concat(crash.Files, []string{config.ModelFile, config.PosteriorFile, config.NumbersFile,
	config.CurvesFile, config.NoticesFile, config.AcceptedFile, config.MemberFile,
	config.CopiesFile, failuresFile})

// largestNote bounds the bytes of a note. Chosen by hand: a thousand notices take two million. The posterior is as
// large as the model.
const largestNote = 64 << 20

// clearNotes puts aside what is in the place of a note and cannot be one: no file, one that cannot be read, or one
// that takes more memory than a note. It could be neither read nor replaced, and a pipe would be waited for.
func clearNotes(dir string, log *slog.Logger) error {
	for _, name := range notes {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err != nil {
			continue // it is not there, or the directory says what is wrong
		}
		reason := unlikeNote(path, name)
		if reason == nil {
			continue
		}
		aside := path + ".aside-" + rand.Text()
		log.Error("in the place of a file of the state: put aside", "path", path, "to", aside, "reason", reason)
		root, err := os.OpenRoot(dir)
		if err == nil {
			err = errors.Join(durable.Rename(root, name, filepath.Base(aside)), root.Close())
		}
		if err != nil {
			return fmt.Errorf("model: %w", err)
		}
	}
	return nil
}

// unlikeNote says why something in the place of a note cannot be one, nil if it may be.
func unlikeNote(path, name string) error {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return errors.New("it is no file")
	case st.Size() > largestNote && name != config.PosteriorFile:
		return fmt.Errorf("it has %d bytes, at most %d", st.Size(), largestNote)
	}
	mode := os.O_RDONLY
	if name == crash.HandFile {
		mode = os.O_RDWR
	}
	f, err := os.OpenFile(path, mode, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
