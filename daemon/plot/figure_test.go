package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func twoPanels() *Figure {
	k := []float64{0, 1, 2, 3}
	return &Figure{Columns: 2, Legend: "per 10,000 rows", Panels: []Panel{
		{XLabel: "k (basis vectors)", YLabel: "accuracy (%)", Lines: []Line{
			{
				Name: "λ = 0.1",
				X:    k,
				Y:    []float64{10, 20, math.NaN(), 40},
			}, {Name: "λ = 1", X: k, Y: []float64{10, 15, 17, 18}, Dashed: true}}},
		{XLabel: "time (s)", YLabel: "objective", LogY: true, Lines: []Line{
			{
				Name: "λ = 0.1",
				X:    k,
				Y:    []float64{100, 10, 0, -1},
			}, {Name: "linear", X: []float64{0, 3}, Y: []float64{50, 50}, Bare: true}}},
	}}
}

// texts returns the character data of the text elements of an SVG file, which must be well formed.
func texts(t *testing.T, svg []byte) []string {
	t.Helper()
	var found []string
	inText := false
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("not well formed: %v", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			inText = e.Name.Local == "text"
		case xml.EndElement:
			inText = false
		case xml.CharData:
			if inText {
				found = append(found, strings.TrimSpace(string(e)))
			}
		}
	}
}

func count(list []string, want string) (n int) {
	for _, s := range list {
		if s == want {
			n++
		}
	}
	return n
}

// TestMarks: marks are drawn where they are, and named once; what is outside or no number is left out.
func TestMarks(t *testing.T) {
	drawn := func(marks ...Mark) string {
		path := filepath.Join(t.TempDir(), "figure.svg")
		f := &Figure{
			Columns: 1,
			Panels:  []Panel{{Lines: []Line{{Name: "live", X: []float64{0, 10}, Y: []float64{1, 2}}}, Marks: marks}},
		}
		if err := f.Write(path); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	colour := fmt.Sprintf("#%02x%02x%02x", dark.R, dark.G, dark.B)
	one := drawn(Mark{Name: "promoted", X: 5})
	if n := strings.Count(one, colour); n != 2 { // and in the legend
		t.Errorf("%d marks of one and of its name:\n%s", n, one)
	}
	more := drawn(Mark{Name: "promoted", X: 5}, Mark{Name: "promoted", X: 7},
		Mark{Name: "kept", X: 8, Dashed: true}, Mark{Name: "promoted", X: 11},
		Mark{Name: "kept", X: math.NaN(), Dashed: true})
	if n := strings.Count(more, colour); n != 5 || count(texts(t, []byte(more)), "promoted") != 1 ||
		count(texts(t, []byte(more)), "kept") != 1 ||
		strings.Contains(more, "NaN") {
		t.Errorf("%d marks of three and of two names:\n%s", n, more)
	}
	if alarm := fmt.Sprintf("#%02X%02X%02X", red.R, red.G, red.B); strings.Count(drawn(Mark{Name: "drift", X: 5,
		Alarm: true}), alarm) != 2 || strings.Contains(one, alarm) {
		t.Error("an alarm is not red")
	}
	if drawn(Mark{Name: "promoted", X: 2}) == one {
		t.Error("a mark is drawn at the same place wherever it is")
	}
}

func TestSVG(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figure.svg")
	f := twoPanels()
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := texts(t, raw)
	for _, want := range []string{"λ = 0.1", "λ = 1", "linear", "per 10,000 rows", "k (basis vectors)", "accuracy (%)",
		"time (s)", "objective"} {
		if n := count(found, want); n != 1 {
			t.Errorf("%q is %d times in the figure, want once; texts are %q", want, n, found)
		}
	}
	if strings.Contains(string(raw), "NaN") {
		t.Error("the figure has coordinates that are not numbers")
	}
	again := filepath.Join(t.TempDir(), "again.SVG")
	if err := f.Write(again); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(again); err != nil || !bytes.Equal(b, raw) {
		t.Errorf("the same figure gave another file (%v)", err)
	}
}

// TestPNG looks for the colour of each line.
func TestPNG(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figure.png")
	if err := twoPanels().Write(path); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	img, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	pixels := make(map[color.RGBA]int)
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			r, g, b, a := img.At(x, y).RGBA()
			pixels[color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), uint8(a >> 8)}]++
		}
	}
	for i, c := range palette[:3] {
		if pixels[c] < 50 {
			t.Errorf("line %d: %d pixels of its colour %v", i, pixels[c], c)
		}
	}
	if n := pixels[palette[3]]; n != 0 {
		t.Errorf("%d pixels of the colour of a fourth line", n)
	}
}

// TestEmpty: panels without a point, or with a single one, are drawn as empty axes.
func TestEmpty(t *testing.T) {
	for _, log := range []bool{false, true} {
		f := &Figure{Columns: 3, Panels: []Panel{{LogX: log, LogY: log},
			{
				LogX:  log,
				LogY:  log,
				Lines: []Line{{Name: "one", X: []float64{2}, Y: []float64{3}}, {Name: "none", Dashed: true}},
			}}}
		if err := f.Write(filepath.Join(t.TempDir(), "empty.png")); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "empty.svg")
		if err := f.Write(path); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if texts(t, raw); strings.Contains(string(raw), "NaN") || strings.Contains(string(raw), "Inf") {
			t.Error("the figure has coordinates that are not numbers")
		}
	}
	if err := (&Figure{Columns: 1}).Write(filepath.Join(t.TempDir(), "none.svg")); err == nil {
		t.Error("a figure without panels was written")
	}
}

func TestFormat(t *testing.T) {
	for _, path := range []string{"a.svg", "a.PNG", "b.c/d.png"} {
		if err := Check(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{"a", "a.pdf", "svg", "a.svg.gz", ""} {
		if err := Check(path); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, want ErrFormat", path, err)
		}
		if err := twoPanels().Write(filepath.Join(t.TempDir(), path)); err == nil {
			t.Errorf("%s was written", path)
		}
	}
}
