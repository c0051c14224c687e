package web

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"slices"
)

//go:embed static
var static embed.FS

// asset is a file of the status page, which a browser keeps until another build serves another one.
type asset struct {
	media, etag string
	content     []byte
}

// newAsset joins embedded files.
func newAsset(media string, names ...string) *asset {
	var parts [][]byte
	for _, name := range names {
		b, err := static.ReadFile("static/" + name)
		if err != nil {
			panic("web: " + err.Error()) // a mistake in this file
		}
		parts = append(parts, b)
	}
	content := slices.Concat(parts...)
	return &asset{media, fmt.Sprintf("\"%x\"", sha256.Sum256(content)), content}
}

var (
	styleSheet = newAsset("text/css; charset=utf-8", "style.css")
	pageScript = newAsset("text/javascript; charset=utf-8", "dom.js", "plot.js", "curves.js",
		"quality.js", "data.js", "belief.js", "versions.js", "compare.js", "try.js", "model.js", "page.js")
	pageIcon = newAsset("image/svg+xml", "icon.svg")
)

func (a *asset) serve(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", a.media)
	w.Header().Set("Cache-Control", "no-cache") // kept, and asked for again each time
	w.Header().Set("ETag", a.etag)
	if matches(r, a.etag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	_, _ = w.Write(a.content) // a client that has gone needs no answer
	return nil
}

// style serves the style sheet of the status page.
func (*Server) style(w http.ResponseWriter, r *http.Request) error { return styleSheet.serve(w, r) }

// script serves the program of the status page, which draws what it reads at /v1/stream.
func (*Server) script(w http.ResponseWriter, r *http.Request) error { return pageScript.serve(w, r) }

// icon serves the icon of the status page.
func (*Server) icon(w http.ResponseWriter, r *http.Request) error { return pageIcon.serve(w, r) }
