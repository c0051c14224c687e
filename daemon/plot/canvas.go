package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/vector"
)

// point is in points of 1/72 inch from the upper left corner.
type point struct{ x, y float64 }

// path is some lines, or filled polygons if it has no width.
type path struct {
	lines [][]point
	color color.RGBA
	width float64
}

// label is a text in black. Anchor is the part of its width before the point. A turned one runs upward.
type label struct {
	at     point
	text   string
	size   float64
	anchor float64
	turned bool
}

// canvas is what is drawn, in this order: paths, then labels.
type canvas struct {
	width, height float64
	paths         []path
	labels        []label
}

// svg writes the canvas as SVG with texts as texts.
func (c *canvas) svg() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%gpt\" height=\"%gpt\" viewBox=\"0 0 %[1]g %[2]g\" "+
		"font-family=\"Liberation Sans, Arial, Helvetica, sans-serif\" stroke-linejoin=\"round\">\n"+
		"<path d=\"M0 0H%[1]gV%[2]gH0Z\" fill=\"#fff\"/>\n", c.width, c.height)
	for _, p := range c.paths {
		out.WriteString(`<path d="`)
		for _, line := range p.lines {
			for i, at := range line {
				fmt.Fprintf(&out, "%c%.2f %.2f", "ML"[min(i, 1)], at.x, at.y)
			}
		}
		paint := fmt.Sprintf("#%02x%02x%02x", p.color.R, p.color.G, p.color.B)
		if p.width == 0 {
			fmt.Fprintf(&out, "Z\" fill=\"%s\"/>\n", paint)
		} else {
			fmt.Fprintf(&out, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"%g\"/>\n", paint, p.width)
		}
	}
	for _, l := range c.labels {
		anchor, turn := []string{"start", "middle", "end"}[int(2*l.anchor)], ""
		if l.turned {
			turn = ` transform="rotate(-90)"`
			l.at = point{-l.at.y, l.at.x}
		}
		fmt.Fprintf(&out, `<text x="%.2f" y="%.2f" font-size="%g" text-anchor="%s"%s>`, l.at.x, l.at.y, l.size, anchor, turn)
		_ = xml.EscapeText(&out, []byte(l.text)) // a bytes.Buffer takes all
		out.WriteString("</text>\n")
	}
	out.WriteString("</svg>\n")
	return out.Bytes()
}

const scale = 2 // pixels of a PNG to a point

// png draws the canvas as a picture.
func (c *canvas) png() ([]byte, error) {
	img := image.NewRGBA(image.Rect(0, 0, int(math.Ceil(c.width*scale)), int(math.Ceil(c.height*scale))))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	for _, p := range c.paths {
		polygons := p.lines
		if p.width > 0 {
			polygons = nil
			for _, line := range p.lines {
				polygons = append(polygons, stroke(line, p.width)...)
			}
		}
		fill(img, p.color, polygons)
	}
	parsed, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return nil, err
	}
	for _, l := range c.labels {
		face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: l.size, DPI: 72 * scale})
		if err != nil {
			return nil, err
		}
		write(img, face, l)
	}
	var out bytes.Buffer
	err = png.Encode(&out, img)
	return out.Bytes(), err
}

// fill fills the union of polygons, which run round in the same sense.
func fill(img draw.Image, paint color.Color, polygons [][]point) {
	from, to := point{math.Inf(1), math.Inf(1)}, point{}
	for _, polygon := range polygons {
		for _, p := range polygon {
			from, to = point{min(from.x, p.x), min(from.y, p.y)}, point{max(to.x, p.x), max(to.y, p.y)}
		}
	}
	if from.x > to.x {
		return
	}
	area := image.Rect(int(from.x*scale)-1, int(from.y*scale)-1, int(to.x*scale)+2, int(to.y*scale)+2)
	r := vector.NewRasterizer(area.Dx(), area.Dy())
	for _, polygon := range polygons {
		for i, p := range polygon {
			step := r.LineTo
			if i == 0 {
				step = r.MoveTo
			}
			step(float32(p.x*scale)-float32(area.Min.X), float32(p.y*scale)-float32(area.Min.Y))
		}
		r.ClosePath()
	}
	r.Draw(img, area, image.NewUniform(paint), image.Point{})
}

// stroke returns the rectangles of the segments of a line, and discs at its joints.
func stroke(line []point, width float64) (polygons [][]point) {
	for i, p := range line[1:] {
		q := line[i]
		length := math.Hypot(p.x-q.x, p.y-q.y)
		if length == 0 {
			continue
		}
		x, y := -(p.y-q.y)/length*width/2, (p.x-q.x)/length*width/2
		polygons = append(polygons, []point{{q.x + x, q.y + y}, {q.x - x, q.y - y}, {p.x - x, p.y - y}, {p.x + x, p.y + y}}, regular(q, width/2, 8, 0))
	}
	return polygons
}

// write writes a text, a pixel at a time, since it may have to be turned.
func write(img draw.Image, face font.Face, l label) {
	m, width := face.Metrics(), font.MeasureString(face, l.text)
	text := image.NewAlpha(image.Rect(0, -m.Ascent.Ceil(), width.Ceil()+1, m.Descent.Ceil()))
	(&font.Drawer{Dst: text, Src: image.Opaque, Face: face}).DrawString(l.text)
	x, y, before := int(math.Round(l.at.x*scale)), int(math.Round(l.at.y*scale)), int(l.anchor*float64(width)/64)
	for v := text.Rect.Min.Y; v < text.Rect.Max.Y; v++ {
		for u := range text.Rect.Max.X {
			at := image.Rect(x+u-before, y+v, x+u-before+1, y+v+1)
			if l.turned {
				at = image.Rect(x+v, y+before-u, x+v+1, y+before-u+1)
			}
			draw.DrawMask(img, at, image.Black, image.Point{}, text, image.Pt(u, v), draw.Over)
		}
	}
}
