package plot

import (
	"image/color"
	"math"
	"slices"
	"unicode/utf8"
)

// palette is that of Okabe and Ito (2008), which people with any of the common kinds of colour blindness can tell apart, without its
// yellow, which is too pale for a line on white.
var palette = []color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {230, 159, 0, 255}, {86, 180, 233, 255}, {0, 0, 0, 255},
}

var black, grey, dark = color.RGBA{A: 255}, color.RGBA{230, 230, 230, 255}, color.RGBA{130, 130, 130, 255}

// markers go round with another period than the colours, so that lines differ in shape as well: disc, square, triangle, cross, ring, box,
// pyramid, plus.
var markers = []struct {
	corners int
	turn    float64
	form    form
}{{16, 0, filled}, {4, math.Pi / 4, open}, {3, -math.Pi / 2, open}, {4, math.Pi / 4, crossed}, {16, 0, open}, {4, math.Pi / 4, filled},
	{3, -math.Pi / 2, filled}, {4, 0, crossed}}

type form int

const (
	filled form = iota
	open
	crossed
)

// Lengths in points.
const (
	lineWidth  = 1.2
	axisWidth  = 0.5
	markerSize = 2.4
	textSize   = 10
	tickText   = 9
	tickLength = 6.0
	axisGap    = 5 // between the axes and the data
	panelGap   = 10
	lineHeight = 14
	sample     = 24 // of a line in the legend
	dash       = 5
	dashGap    = 3
	// maxMarkers is the largest number of markers on a line; a longer line has one at every n-th point.
	maxMarkers = 25
)

// draw draws the panels into equal tiles, with the areas of the data aligned, and the legend on the right.
func (f *Figure) draw(c *canvas, columns, rows int) {
	var names []string
	legend := point{c.width - legendWidth + panelGap, panelGap + textSize}
	entry := func(text string) {
		c.text(point{legend.x + sample + 4, legend.y}, text, textSize, 0)
		legend.y += lineHeight
	}
	if f.Legend != "" {
		entry(f.Legend)
	}
	f.legendOfMarks(func(m *Mark) {
		x := legend.x + sample/2
		c.mark(m, point{x, legend.y - 0.8*textSize}, point{x, legend.y + 0.2*textSize})
		entry(m.Name)
	})
	charts := make([]chart, len(f.Panels))
	left, top := make([]float64, columns), make([]float64, rows)
	for i := range f.Panels {
		charts[i] = newChart(&f.Panels[i])
		left[i%columns] = max(left[i%columns], charts[i].wide)
		if f.Panels[i].Title != "" {
			top[i/columns] = lineHeight + 4
		}
		for l := range f.Panels[i].Lines {
			if line := &f.Panels[i].Lines[l]; !slices.Contains(names, line.Name) {
				y := legend.y - 0.35*textSize
				c.line(line, len(names), []point{{legend.x, y}, {legend.x + sample, y}}, []point{{legend.x + sample/2, y}})
				names = append(names, line.Name)
				entry(line.Name)
			}
		}
	}
	for i := range charts {
		x, y := float64(i%columns*panelWidth), float64(i/columns*panelHeight)
		charts[i].draw(c, names, point{x + panelGap + lineHeight + left[i%columns] + tickLength + axisGap + 4, y + panelGap + top[i/columns]},
			point{x + panelWidth - panelGap, y + panelHeight - panelGap - 2*lineHeight - tickLength - axisGap})
	}
}

// legendOfMarks calls add for the first mark of each name.
func (f *Figure) legendOfMarks(add func(*Mark)) {
	var names []string
	for i := range f.Panels {
		for j := range f.Panels[i].Marks {
			if m := &f.Panels[i].Marks[j]; !slices.Contains(names, m.Name) {
				names = append(names, m.Name)
				add(m)
			}
		}
	}
}

// mark draws a mark between two points.
func (c *canvas) mark(m *Mark, from, to point) {
	lines := [][]point{{from, to}}
	if m.Dashed {
		lines = dashes(lines[0])
	}
	c.paths = append(c.paths, path{lines, dark, axisWidth})
}

// chart is a panel with the axes that its lines need.
type chart struct {
	*Panel
	x, y axis
	wide float64 // of what is written at the y axis: a digit is somewhat wider than half its height
}

func newChart(p *Panel) chart {
	c := chart{Panel: p, x: axis{p.XLabel, p.LogX, math.Inf(1), math.Inf(-1)}, y: axis{p.YLabel, p.LogY, math.Inf(1), math.Inf(-1)}}
	for i := range p.Lines {
		x, y := p.Lines[i].points(p.LogX, p.LogY)
		for j := range x {
			c.x.min, c.x.max = min(c.x.min, x[j]), max(c.x.max, x[j])
			c.y.min, c.y.max = min(c.y.min, y[j]), max(c.y.max, y[j])
		}
	}
	c.x.settle()
	c.y.settle()
	for _, t := range c.y.ticks() {
		c.wide = max(c.wide, 0.6*tickText*float64(utf8.RuneCountInString(t.label)))
	}
	return c
}

// draw draws a chart with the data between two corners.
func (ch *chart) draw(c *canvas, names []string, from, to point) {
	place := func(x, y float64) point {
		return point{from.x + (to.x-from.x)*ch.x.at(x), to.y + (from.y-to.y)*ch.y.at(y)}
	}
	bottom, left := to.y+axisGap, from.x-axisGap
	for _, t := range ch.x.ticks() {
		x, length := place(t.at, ch.y.min).x, tickLength/2
		if t.label != "" {
			length = tickLength
			c.stroke(grey, axisWidth, point{x, from.y}, point{x, to.y})
			c.text(point{x, bottom + tickLength + tickText}, t.label, tickText, 0.5)
		}
		c.stroke(black, axisWidth, point{x, bottom}, point{x, bottom + length})
	}
	for _, t := range ch.y.ticks() {
		y, length := place(ch.x.min, t.at).y, tickLength/2
		if t.label != "" {
			length = tickLength
			c.stroke(grey, axisWidth, point{from.x, y}, point{to.x, y})
			c.text(point{left - tickLength - 2, y + 0.35*tickText}, t.label, tickText, 1)
		}
		c.stroke(black, axisWidth, point{left - length, y}, point{left, y})
	}
	c.stroke(black, axisWidth, point{from.x, bottom}, point{to.x, bottom})
	c.stroke(black, axisWidth, point{left, from.y}, point{left, to.y})
	middle := (from.x + to.x) / 2
	c.text(point{middle, from.y - 8}, ch.Title, textSize+1, 0.5)
	c.text(point{middle, bottom + tickLength + 2*lineHeight - 4}, ch.x.label, textSize, 0.5)
	c.labels = append(c.labels, label{point{left - tickLength - 10 - ch.wide, (from.y + to.y) / 2}, ch.y.label, textSize, 0.5, true})
	for i := range ch.Marks {
		if m := &ch.Marks[i]; m.X >= ch.x.min && m.X <= ch.x.max {
			x := place(m.X, ch.y.min).x
			c.mark(m, point{x, from.y}, point{x, to.y})
		}
	}
	for i := range slices.Backward(ch.Lines) { // the first on top
		l := &ch.Lines[i]
		x, y := l.points(ch.LogX, ch.LogY)
		points, marked := make([]point, len(x)), []point(nil)
		for j := range x {
			points[j] = place(x[j], y[j])
			if j%((len(x)+maxMarkers-1)/maxMarkers) == 0 {
				marked = append(marked, points[j])
			}
		}
		c.line(l, slices.Index(names, l.Name), points, marked)
	}
}

// line draws a line in the style of a number, with markers on some points.
func (c *canvas) line(l *Line, style int, points, marked []point) {
	if len(points) == 0 {
		return
	}
	paint := palette[style%len(palette)]
	if l.Dashed {
		c.paths = append(c.paths, path{dashes(points), paint, lineWidth})
	} else {
		c.stroke(paint, lineWidth, points...)
	}
	if l.Bare {
		return
	}
	m := markers[style%len(markers)]
	for _, at := range marked {
		switch corners := regular(at, markerSize, m.corners, m.turn); m.form {
		case filled:
			c.stroke(paint, 0, corners...)
		case open:
			c.stroke(paint, axisWidth, append(corners, corners[0])...)
		case crossed:
			c.paths = append(c.paths, path{[][]point{{corners[0], corners[2]}, {corners[1], corners[3]}}, paint, axisWidth})
		}
	}
}

func (c *canvas) stroke(paint color.RGBA, width float64, line ...point) {
	c.paths = append(c.paths, path{[][]point{line}, paint, width})
}

func (c *canvas) text(at point, text string, size, anchor float64) {
	if text != "" {
		c.labels = append(c.labels, label{at, text, size, anchor, false})
	}
}

// dashes cuts a line: drawn and left out in turn.
func dashes(line []point) (parts [][]point) {
	part, on, left := line[:1:1], true, float64(dash)
	for i := 1; i < len(line); {
		from, to := part[len(part)-1], line[i]
		length := math.Hypot(to.x-from.x, to.y-from.y)
		if length <= left {
			part, left = append(part, to), left-length
			i++
			continue
		}
		at := point{from.x + (to.x-from.x)*left/length, from.y + (to.y-from.y)*left/length}
		if left = dash; on {
			parts, left = append(parts, append(part, at)), dashGap
		}
		part, on = []point{at}, !on
	}
	if on && len(part) > 1 {
		parts = append(parts, part)
	}
	return parts
}

// regular returns the corners of a regular polygon.
func regular(centre point, radius float64, corners int, turn float64) []point {
	out := make([]point, corners)
	for i := range out {
		sin, cos := math.Sincos(turn + 2*math.Pi*float64(i)/float64(corners))
		out[i] = point{centre.x + radius*cos, centre.y + radius*sin}
	}
	return out
}
