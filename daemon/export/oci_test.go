package export

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	oci "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/refitd/refitd/snapshot"
)

// TestOCI: what is mounted of the image is a store with the version, for each architecture; the tag is the version's
// digest, the same version gives the same image, and model.sig refers to it.
func TestOCI(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "",
		0))))
	defer server.Close()
	store := t.TempDir()
	if err := os.CopyFS(store, os.DirFS("../../snapshot/testdata/v1")); err != nil {
		t.Fatal(err)
	}
	version := filepath.Join(store, "ratings", "1")
	const bundle = "a bundle"
	if err := errors.Join(os.WriteFile(filepath.Join(version, "model.sig"), []byte(bundle), 0o600),
		os.Mkdir(filepath.Join(version, "deltas"), 0o700)); err != nil {
		t.Fatal(err)
	}
	m, err := snapshot.Open(store, "ratings", snapshot.Selector{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	to := strings.TrimPrefix(server.URL, "http://") + "/models/ratings"
	image, err := OCI(t.Context(), store, m, to, true)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := OCI(t.Context(), store, m, to, true); err != nil || again != image {
		t.Errorf("%+v, then %+v: %v", image, again, err)
	}
	if want := to + ":" + strings.Replace(m.Manifest().Digest, ":", "-", 1); image.Reference != want {
		t.Errorf("%s, want %s", image.Reference, want)
	}
	repository, err := remote.NewRepository(image.Reference)
	if err != nil {
		t.Fatal(err)
	}
	repository.PlainHTTP = true
	at, err := repository.Resolve(t.Context(), image.Reference)
	if err != nil || at.Digest.String() != image.Digest {
		t.Fatalf("%v, want %s: %v", at, image.Digest, err)
	}
	fetch := func(of oci.Descriptor, into any) []byte {
		t.Helper()
		b, err := content.FetchAll(t.Context(), repository, of)
		if err == nil && into != nil {
			err = json.Unmarshal(b, into)
		}
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var index oci.Index
	fetch(at, &index)
	if len(index.Manifests) != len(architectures) {
		t.Errorf("%d images", len(index.Manifests))
	}
	for _, one := range index.Manifests {
		var manifest oci.Manifest
		var config oci.Image
		fetch(one, &manifest)
		fetch(manifest.Config, &config)
		if config.Architecture != one.Platform.Architecture || config.RootFS.DiffIDs[0] != manifest.Layers[0].Digest {
			t.Errorf("%+v of %+v", config, one.Platform)
		}
		mount := t.TempDir()
		unpack(t, mount, fetch(manifest.Layers[0], nil))
		mounted, err := snapshot.Open(mount, "ratings", snapshot.Selector{Version: 1})
		if err != nil || mounted.Manifest().Digest != m.Manifest().Digest {
			t.Errorf("mounted: %v", err)
		}
	}
	var referrers []oci.Descriptor
	if err := repository.Referrers(t.Context(), at, "", func(list []oci.Descriptor) error {
		referrers = append(referrers, list...)
		return nil
	}); err != nil || len(referrers) != 1 || referrers[0].Digest.String() != image.Signature {
		t.Fatalf("referrers %+v, want %s: %v", referrers, image.Signature, err)
	}
	var signature oci.Manifest
	fetch(referrers[0], &signature)
	if signature.ArtifactType != signatureType {
		t.Errorf("the referrer is of type %q", signature.ArtifactType)
	}
	if text := fetch(signature.Layers[0], nil); string(text) != bundle {
		t.Errorf("model.sig is %q", text)
	}
	if _, err := OCI(t.Context(), store, m, to+":v1", true); err == nil {
		t.Error("a tag was taken")
	}
}

// unpack writes the files of an archive.
func unpack(t *testing.T, dir string, archive []byte) {
	t.Helper()
	for r := tar.NewReader(strings.NewReader(string(archive))); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err == nil && h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o700)
		} else if err == nil {
			var b []byte
			if b, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, b, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
