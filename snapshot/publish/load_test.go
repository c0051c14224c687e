package publish

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/verify"
)

// Of several files that are not sound the first is named, whichever goroutine was faster; and what is not sound is
// handed to nobody.
func TestReadFilesNamesTheFirst(t *testing.T) {
	manifest, files, err := encodeVersion("m", snapshottest.TestContents(snapshottest.Small))
	snapshottest.Must(t, err)
	for range 50 {
		var used [3]bool
		use := [3]func([]byte) error{}
		for i := range use {
			use[i] = func([]byte) error {
				used[i] = true
				return nil
			}
		}
		err := verify.ReadFiles(func(name string, _ int64) ([]byte, error) {
			for _, f := range files {
				if f.Name == name && name != disk.VocabularyFile {
					b := bytes.Clone(f.Content)
					b[len(b)-1] ^= 1
					return b, nil
				}
			}
			return nil, fs.ErrNotExist
		}, &manifest, use)
		if !errors.Is(err, disk.ErrDigest) || !strings.Contains(err.Error(), disk.TensorsFile) {
			t.Fatalf("error %v, want ErrDigest of %s", err, disk.TensorsFile)
		}
		if used != [3]bool{} {
			t.Fatalf("files were used unverified: %v", used)
		}
	}
}
