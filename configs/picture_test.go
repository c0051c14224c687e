package configs_test

import (
	"bytes"
	"fmt"
	"html"
	"image/png"
	"strings"
	"testing"
)

// box is a rectangle of the picture with a title and lines of text below it. Units are pixels of the picture.
type box struct {
	x, y, width, height int
	title               string
	lines               []string
	strong              bool // has the colour of refitd's own parts
}

// arrow goes from one point to another in a straight line, with a label above its middle.
type arrow struct {
	x1, y1, x2, y2 int
	label          string
}

// TestPicture: refitd.svg, which README shows, is what this program draws: go test ./configs -run TestPicture -update.
func TestPicture(t *testing.T) {
	boxes := []box{
		{10, 85, 170, 90, "Kafka topics", []string{"ratings, clicks, choices", "JSON, Avro, Protobuf"}, false},
		{290, 30, 230, 90, "Live model", []string{
			"scores, then learns each event;", "gives updates and deltas",
		}, true},
		{290, 140, 230, 90, "Sample and ledger", []string{"bounded, exactly once,", "in one transaction"}, true},
		{290, 250, 230, 90, "Refit and gate", []string{
			"Algorithm 1 with a certificate;", "versions judged on held-out rows",
		}, true},
		{640, 140, 160, 90, "Store", []string{"numbered versions,", "signed, with deltas"}, false},
		{900, 70, 190, 120, "Your service", []string{
			"Go, Python, HTTP, ONNX", "follows the champion,", "checks each version",
		}, false},
		{900, 250, 190, 70, "Prometheus", []string{"metrics, alerts"}, false},
	}
	arrows := []arrow{
		{180, 110, 290, 75, "events"},
		{180, 150, 290, 185, "events"},
		{405, 230, 405, 250, ""},
		{520, 75, 640, 165, ""},
		{520, 270, 640, 205, ""},
		{800, 175, 900, 140, "seconds"},
		{520, 290, 900, 290, ""},
	}
	var svg bytes.Buffer
	fmt.Fprint(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1100 370" role="img" `+
		`aria-label="Kafka topics feed refitd; it writes versions to a store, which services follow" `+
		`font-family="Helvetica, Arial, sans-serif" font-size="14">`+"\n"+
		`<rect width="1100" height="370" fill="#ffffff"/>`+"\n"+
		`<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">`+
		`<path d="M0 0L10 5L0 10z" fill="#4a5568"/></marker></defs>`+"\n"+
		`<rect x="270" y="10" width="270" height="350" rx="10" fill="#f4f7fb" stroke="#2b6cb0" stroke-dasharray="5 4"/>`+
		"\n"+`<text x="405" y="354" text-anchor="middle" fill="#2b6cb0" font-weight="bold">refitd</text>`+"\n")
	for _, a := range arrows {
		fmt.Fprintf(&svg, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#4a5568" stroke-width="1.5" `+
			`marker-end="url(#tip)"/>`+"\n", a.x1, a.y1, a.x2, a.y2)
		if a.label != "" {
			fmt.Fprintf(&svg, `<text x="%d" y="%d" text-anchor="middle" fill="#4a5568" font-size="12">%s</text>`+"\n",
				(a.x1+a.x2)/2, (a.y1+a.y2)/2-8, html.EscapeString(a.label))
		}
	}
	for _, b := range boxes {
		fill, stroke := "#ffffff", "#718096"
		if b.strong {
			fill, stroke = "#ebf4ff", "#2b6cb0"
		}
		fmt.Fprintf(&svg, `<rect x="%d" y="%d" width="%d" height="%d" rx="8" fill="%s" stroke="%s"/>`+"\n",
			b.x, b.y, b.width, b.height, fill, stroke)
		fmt.Fprintf(&svg, `<text x="%d" y="%d" text-anchor="middle" fill="#1a202c" font-weight="bold">%s</text>`+"\n",
			b.x+b.width/2, b.y+26, html.EscapeString(b.title))
		for i, line := range b.lines {
			if width := 7 * len(line); width > b.width {
				t.Errorf("%q does not fit into a box of %d pixels", line, b.width)
			}
			fmt.Fprintf(&svg, `<text x="%d" y="%d" text-anchor="middle" fill="#4a5568" font-size="13">%s</text>`+"\n",
				b.x+b.width/2, b.y+50+18*i, html.EscapeString(line))
		}
	}
	fmt.Fprintln(&svg, "</svg>")
	same(t, "refitd.svg", svg.Bytes())
	if readme := string(mustRead(t, "../README.md")); !strings.Contains(readme, "(configs/refitd.svg)") {
		t.Error("README does not show refitd.svg")
	}
}

// TestPagePicture: page.png, which .ci/picture draws and README shows, is a picture that is quickly there.
func TestPagePicture(t *testing.T) {
	content := mustRead(t, "page.png")
	picture, err := png.DecodeConfig(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if picture.Width > 1280 || len(content) > 150_000 {
		t.Errorf("%d pixels wide and %d bytes, at most 1280 and 150,000", picture.Width, len(content))
	}
	if !strings.Contains(string(mustRead(t, "../README.md")), "(configs/page.png)") {
		t.Error("README does not show page.png")
	}
}
