package export

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	ocidigest "github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	oci "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/publish"
)

// signatureType is the media type of model.sig, a Sigstore bundle.
const signatureType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// Image is what OCI has written.
type Image struct {
	Reference string // repository and tag
	Digest    string // of the image, an index of one for each architecture
	Signature string // digest of the referrer with model.sig; empty without one
	Bytes     int64  // of the layer
}

// OCI writes a version of a store into a repository of a registry, as an image that Kubernetes mounts as a volume: one
// layer with MODEL/VERSION/ and its files but deltas, so that a mount is a store. The tag is the version's digest, as
// sha256-HEX. model.sig is a referrer of the image, too. Signing in is as for docker push. The same version gives the
// same image. plain speaks HTTP without TLS.
func OCI(ctx context.Context, store string, m *snapshot.Model, repository string, plain bool) (Image, error) {
	image, err := pushed(ctx, store, m, repository, plain)
	if err != nil {
		return Image{}, fmt.Errorf("export: %s: %w", repository, err)
	}
	return image, nil
}

func pushed(ctx context.Context, store string, m *snapshot.Model, repository string, plain bool) (image Image,
	err error) {
	to, err := remote.NewRepository(repository)
	if err != nil {
		return image, err
	}
	if to.Reference.Reference != "" {
		return image, errors.New("name a repository without a tag: that is the version's digest")
	}
	signIn, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return image, err
	}
	to.PlainHTTP = plain
	to.Client = &auth.Client{Client: retry.DefaultClient, Cache: auth.NewCache(),
		Credential: credentials.Credential(signIn)}
	manifest := m.Manifest()
	v := &versionFiles{fs: os.DirFS(store), dir: path.Join(manifest.Model, fmt.Sprint(manifest.Version)),
		created: manifest.Created.UTC().Truncate(time.Second)}
	layer, err := v.push(ctx, to)
	if err != nil {
		return image, err
	}
	created := v.created.Format(time.RFC3339)
	says := map[string]string{oci.AnnotationCreated: created, oci.AnnotationTitle: manifest.Model,
		oci.AnnotationVersion: fmt.Sprint(manifest.Version), "io.refitd.digest": manifest.Digest}
	index := oci.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.MediaTypeImageIndex, Annotations: says}
	for _, architecture := range architectures {
		one, err := v.image(ctx, to, layer, architecture, says)
		if err != nil {
			return image, err
		}
		index.Manifests = append(index.Manifests, one)
	}
	text, err := json.Marshal(index)
	if err != nil {
		return image, err
	}
	tag := strings.Replace(manifest.Digest, ":", "-", 1)
	packed, err := oras.TagBytes(ctx, to, oci.MediaTypeImageIndex, text, tag)
	if err != nil {
		return image, err
	}
	image = Image{Reference: repository + ":" + tag, Digest: packed.Digest.String(), Bytes: layer.Size}
	bundle, err := fs.ReadFile(v.fs, path.Join(v.dir, publish.ModelSignatureFile))
	if errors.Is(err, fs.ErrNotExist) {
		return image, nil
	}
	if err != nil {
		return image, err
	}
	signature, err := oras.PushBytes(ctx, to, signatureType, bundle)
	if err != nil {
		return image, err
	}
	signature.Annotations = map[string]string{oci.AnnotationTitle: publish.ModelSignatureFile}
	referrer, err := oras.PackManifest(ctx, to, oras.PackManifestVersion1_1, signatureType, oras.PackManifestOptions{
		Subject: &packed, Layers: []oci.Descriptor{signature},
		ManifestAnnotations: map[string]string{oci.AnnotationCreated: created}})
	image.Signature = referrer.Digest.String()
	return image, err
}

// versionFiles are the files of a version in a store.
type versionFiles struct {
	fs      fs.FS
	dir     string // MODEL/VERSION
	created time.Time
}

// write writes the files as a tar archive whose bytes depend on the version alone.
func (v *versionFiles) write(w io.Writer) error {
	entries, err := fs.ReadDir(v.fs, v.dir) // by name
	if err != nil {
		return err
	}
	archive := tar.NewWriter(w)
	for _, dir := range []string{path.Dir(v.dir), v.dir} {
		err = errors.Join(err, archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755,
			ModTime: v.created}))
	}
	for _, e := range entries {
		if err == nil && e.Type().IsRegular() {
			err = v.add(archive, path.Join(v.dir, e.Name()))
		}
	}
	return errors.Join(err, archive.Close())
}

func (v *versionFiles) add(archive *tar.Writer, name string) error {
	file, err := v.fs.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	st, err := file.Stat()
	if err == nil {
		err = archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: st.Size(),
			ModTime: v.created})
	}
	if err == nil {
		_, err = io.Copy(archive, file)
	}
	return err
}

// push writes the layer, unless it is there, and returns its descriptor.
func (v *versionFiles) push(ctx context.Context, to *remote.Repository) (layer oci.Descriptor, err error) {
	sum, size := sha256.New(), new(counter)
	if err := v.write(io.MultiWriter(sum, size)); err != nil {
		return layer, err
	}
	layer = oci.Descriptor{MediaType: oci.MediaTypeImageLayer, Size: int64(*size),
		Digest: ocidigest.Digest("sha256:" + hex.EncodeToString(sum.Sum(nil)))}
	if there, err := to.Exists(ctx, layer); err != nil || there {
		return layer, err
	}
	r, w := io.Pipe()
	defer r.Close()
	go func() { w.CloseWithError(v.write(w)) }()
	return layer, to.Push(ctx, layer, r)
}

// architectures are those that the image is for: its layer is the same for all, but runtimes take their own alone.
var architectures = []string{"amd64", "arm64"}

// image writes the image of the layer for an architecture.
func (v *versionFiles) image(ctx context.Context, to *remote.Repository, layer oci.Descriptor, architecture string,
	says map[string]string) (one oci.Descriptor, err error) {
	platform := oci.Platform{Architecture: architecture, OS: "linux"}
	text, err := json.Marshal(oci.Image{Created: &v.created, Platform: platform,
		RootFS: oci.RootFS{Type: "layers", DiffIDs: []ocidigest.Digest{layer.Digest}}})
	if err != nil {
		return one, err
	}
	config, err := oras.PushBytes(ctx, to, oci.MediaTypeImageConfig, text)
	if err != nil {
		return one, err
	}
	one, err = oras.PackManifest(ctx, to, oras.PackManifestVersion1_1, "",
		oras.PackManifestOptions{Layers: []oci.Descriptor{layer}, ConfigDescriptor: &config, ManifestAnnotations: says})
	one.Annotations, one.Platform = nil, &platform
	return one, err
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(b []byte) (int, error) { *c += counter(len(b)); return len(b), nil }
