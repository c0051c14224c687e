package state

import (
	"crypto/rand"
	"errors"
	"fmt"
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
	config.CurvesFile, config.NoticesFile, config.AcceptedFile, failuresFile})

// clearNotes puts aside what is in the place of a note and no file: it could be neither read nor replaced, and a pipe
// would be waited for.
func clearNotes(dir string, log *slog.Logger) error {
	for _, name := range notes {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
			continue
		}
		if _, err := os.Lstat(path); err != nil {
			continue // it is not there, or the directory says what is wrong
		}
		aside := path + ".aside-" + rand.Text()
		log.Error("in the place of a file of the state: put aside", "path", path, "to", aside)
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
