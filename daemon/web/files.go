package web

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/publish"
)

const (
	maxDownloads = 64               // files on their way at a time; the others get 503
	chunkBytes   = 32 << 10         // written under one deadline
	chunkTimeout = 30 * time.Second // for the client to take a chunk: 1 KiB/s is the slowest that gets through
)

// file answers with a file of a version, or a range of it. The digest in the header is of the whole file, whatever the
// range, so that a download that was cut and gone on with is checked as one.
func (s *Server) file(w http.ResponseWriter, r *http.Request) error {
	select {
	case s.downloads <- struct{}{}:
		defer func() { <-s.downloads }()
	default:
		return request.Busy("too many downloads")
	}
	return s.download(w, r)
}

func (s *Server) download(w http.ResponseWriter, r *http.Request) error {
	cache, err := s.cached(r)
	if err != nil {
		return err
	}
	version := int64(0)
	if alias := r.PathValue("alias"); alias != "" {
		var p snapshot.Pointer
		p, err = cache.Store.Alias(cache.Name, alias)
		version = p.Version
	} else {
		version, err = versionOf(r)
	}
	if err != nil {
		return err
	}
	manifest, err := cache.Store.Manifest(cache.Name, version)
	if err != nil {
		return err
	}
	name := r.PathValue("file")
	there := []string{snapshot.ManifestFile}
	sum, listed := "", name == snapshot.ManifestFile || name == format.SignatureFile ||
		name == publish.ModelSignatureFile
	for _, f := range manifest.AllFiles() {
		there = append(there, f.Name)
		if f.Name == name {
			sum, listed = f.SHA256, true
		}
	}
	if !listed {
		return request.Refuse(http.StatusNotFound, "the version has no such file: it has "+strings.Join(there, ", "))
	}
	f, err := openIn(cache.Dir, path.Join(cache.Name, strconv.FormatInt(version, 10), name))
	if err != nil {
		return err
	}
	defer f.Close()
	h := w.Header()
	h.Set(versionHeader, strconv.FormatInt(version, 10))
	h.Set("X-Payload-Digest", manifest.PayloadDigest)
	h.Set("Cache-Control", "private, no-cache") // a cache may keep it, and has to ask with the ETag
	h.Set("Content-Type", "application/octet-stream")
	switch name {
	case snapshot.ManifestFile:
		h.Set("ETag", etagOf(manifest.Digest))
	case format.SignatureFile, publish.ModelSignatureFile: // of a few bytes, without a digest
	default:
		h.Set("ETag", etagOf(sum))
		h.Set("Repr-Digest", reprDigest(sum))
	}
	http.ServeContent(&chunkWriter{ResponseWriter: w, control: http.NewResponseController(w)}, r, "", time.Time{}, f)
	return nil
}

// openIn opens a regular file below a directory, which neither the name nor a symbolic link can leave.
func openIn(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	st, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, snapshot.ErrNotFound // pruned after it was opened
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, snapshot.ErrFormat
	}
	return root.Open(name)
}

// reprDigest is the digest of a whole file as RFC 9530 writes it.
func reprDigest(hexSum string) string {
	sum, err := hex.DecodeString(hexSum)
	if err != nil {
		return ""
	}
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum) + ":"
}

// chunkWriter gives every chunk its own deadline, so that a large file may take long and a client that stops reading
// does not hold its place. It hides io.ReaderFrom, which would send the whole file under one deadline.
type chunkWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	refused bool // the range cannot be served: the text of the answer is not written, but ours
}

// WriteHeader answers a range that the file does not have as every other mistake.
func (w *chunkWriter) WriteHeader(status int) {
	if w.refused = status == http.StatusRequestedRangeNotSatisfiable; w.refused {
		request.Fail(w.ResponseWriter, status, "the file has no such range: its size is in Content-Range")
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes b in chunks.
func (w *chunkWriter) Write(b []byte) (written int, err error) {
	if w.refused {
		return len(b), nil
	}
	for len(b) > 0 {
		chunk := b[:min(len(b), chunkBytes)]
		if err := w.control.SetWriteDeadline(time.Now().Add(chunkTimeout)); err != nil &&
			!errors.Is(err, http.ErrNotSupported) {
			return written, err
		}
		n, err := w.ResponseWriter.Write(chunk)
		if written += n; err != nil {
			return written, err
		}
		b = b[len(chunk):]
	}
	return written, nil
}
