package sketch

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/refitd/refitd/sketch/internal/codec"
)

var update = flag.Bool("update", false, "write the golden state of the newest format")

// goldenOffsets is how much of mixedLog the golden states have applied.
const goldenOffsets = 3000

// TestGoldenStates: a state of every format there was can be opened, is that of its log, and takes more events. A
// golden state is never written again once its format is released.
func TestGoldenStates(t *testing.T) {
	if name := goldenName(codec.FormatVersion); *update {
		dir := t.TempDir()
		s := mustOpen(t, damageOptions(dir))
		must(t, rereadLog(s, goldenOffsets), s.Close(), os.MkdirAll("testdata", 0o755), pack(dir, name))
	}
	for format := 1; format <= codec.FormatVersion; format++ {
		dir := t.TempDir()
		must(t, unpack(goldenName(format), dir))
		s := mustOpen(t, damageOptions(dir))
		m, err := NewMemory(damageOptions(""))
		must(t, err, rereadLog(m, goldenOffsets))
		if got, want := stateOf(t, s), stateOf(t, m); !reflect.DeepEqual(got, want) {
			t.Errorf("golden state of format %d\n%+v, want\n%+v", format, got, want)
		}
		must(t, rereadLog(s, damageLog), rereadLog(m, damageLog), s.Check())
		if got, want := stateOf(t, s), stateOf(t, m); !reflect.DeepEqual(got, want) {
			t.Errorf("state of format %d after more of the log\n%+v, want\n%+v", format, got, want)
		}
		must(t, s.Close())
	}
}

func goldenName(format int) string {
	return filepath.Join("testdata", fmt.Sprintf("state-%d.tar.gz", format))
}

func pack(dir, name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	zipped := gzip.NewWriter(f)
	w := tar.NewWriter(zipped)
	err = w.AddFS(os.DirFS(dir))
	return errors.Join(err, w.Close(), zipped.Close(), f.Close())
}

func unpack(name, dir string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for r := tar.NewReader(zipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o700)
		} else {
			var content []byte
			if content, err = io.ReadAll(r); err == nil {
				err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600))
			}
		}
		if err != nil {
			return err
		}
	}
}
