package daemon_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/config/strictyaml"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/publish"
)

// A daemon with a key signs versions and aliases, lets them expire, and numbers its starts; a key that others may read
// stops it.
func TestSignedVersions(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	keys := filepath.Join(b.Dir, "keys")
	id, err := publish.CreateKeys(keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := format.LoadKeys(filepath.Join(keys, id+".pub"))
	if err != nil {
		t.Fatal(err)
	}
	path := b.Configure("s", "update_every: 0s",
		"update_every: 0s, signing_key_file: keys/"+id+".key, expires_after: 1h, keep_for: 720h")
	store := filepath.Join(b.Dir, "store-s")
	for start := int64(1); start <= 2; start++ {
		b.ProduceRatings(uint64(start), 800)
		if run := b.Run(path); run.Err != nil {
			t.Fatal(run.Err)
		}
		m, err := snapshot.Trust{Keys: trusted}.Open(store, "ratings", snapshot.Selector{Alias: snapshot.Latest})
		if err != nil {
			t.Fatal(err)
		}
		manifest := m.Manifest()
		if m.SignedBy() != id || manifest.KeyID != id || manifest.Epoch != start ||
			!manifest.Expires.Equal(manifest.Created.Add(time.Hour)) ||
			manifest.Version != start {
			t.Errorf("start %d: signed by %q, version %d, epoch %d, created %v, expires %v", start, m.SignedBy(),
				manifest.Version, manifest.Epoch, manifest.Created, manifest.Expires)
		}
		if n := manifest.Events; n == nil || n.Applied != 800*start || manifest.Lineage == "" {
			t.Errorf("start %d: counts %+v, lineage %q", start, n, manifest.Lineage)
		}
	}
	if err := os.Chmod(filepath.Join(keys, id+".key"), 0o640); err != nil {
		t.Fatal(err)
	}
	_, err = config.Load(path)
	if e, ok := errors.AsType[*strictyaml.FileError](err); !ok || len(e.Problems) != 1 ||
		e.Problems[0].Key != "models[0].publish.signing_key_file" {
		t.Errorf("a key with mode 0640: %v", err)
	}
}
