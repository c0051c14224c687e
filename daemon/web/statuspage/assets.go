package statuspage

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"slices"
)

//go:embed static
var static embed.FS

// Asset is a file of the status page, which a browser keeps until another build serves another one.
type Asset struct {
	Media   string // its Content-Type
	ETag    string // with its quotes
	Content []byte // which is only read
}

// newAsset joins embedded files.
func newAsset(media string, names ...string) *Asset {
	var parts [][]byte
	for _, name := range names {
		b, err := static.ReadFile("static/" + name)
		if err != nil {
			panic("statuspage: " + err.Error()) // a mistake in this file
		}
		parts = append(parts, b)
	}
	content := slices.Concat(parts...)
	return &Asset{media, fmt.Sprintf("\"%x\"", sha256.Sum256(content)), content}
}

// The files of the page: its style, the program that draws it, and its icon. They are only read.
var (
	StyleSheet = newAsset("text/css; charset=utf-8", "style.css")
	Script     = newAsset("text/javascript; charset=utf-8", "dom.js", "plot.js", "curves.js",
		"quality.js", "data.js", "belief.js", "versions.js", "compare.js", "try.js", "model.js", "page.js")
	Icon = newAsset("image/svg+xml", "icon.svg")
)
