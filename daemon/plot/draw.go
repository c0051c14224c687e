package plot

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// palette is that of Okabe and Ito (2008), which people with any of the common kinds of colour blindness can
// distinguish, without its yellow, which is too pale for a line on white; and after it what Tol's muted scheme (2021)
// adds, so that sixteen lines differ.
var palette = []color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {230, 159, 0, 255},
	{86, 180, 233, 255}, {0, 0, 0, 255}, {51, 34, 136, 255}, {136, 34, 85, 255}, {153, 153, 51, 255},
	{170, 68, 153, 255}, {17, 119, 51, 255}, {204, 102, 119, 255}, {68, 170, 153, 255}, {221, 204, 119, 255},
	{102, 17, 0, 255},
}

var grey, dark, red = color.RGBA{230, 230, 230, 255}, color.RGBA{130, 130, 130, 255}, color.RGBA{200, 30, 40, 255}

// markers go round with another period than the colours, so that lines differ in shape as well.
var markers = []draw.GlyphDrawer{
	draw.CircleGlyph{},
	draw.SquareGlyph{},
	draw.TriangleGlyph{},
	draw.CrossGlyph{},
	draw.RingGlyph{},
	draw.BoxGlyph{},
	draw.PyramidGlyph{},
	draw.PlusGlyph{},
}

// Lengths in points.
const (
	lineWidth  = 1.4
	faintWidth = 0.7
	axisWidth  = 0.5
	markerSize = 2.4
	textSize   = 10
	tickText   = 9
	panelGap   = 10
	legendGap  = 3
	dash       = 5
	dashGap    = 3
	// maxMarkers is the largest number of markers on a line; a longer line has one at every n-th point.
	maxMarkers = 25
)

// sans returns the font of texts of a size. It is in the program.
func sans(size font.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

// draw draws the panels into equal tiles, with the areas of the data aligned, and the legend on the right.
func (f *Figure) draw(c draw.Canvas, columns, rows int) error {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	legend := plot.NewLegend()
	legend.Top, legend.Left, legend.Padding, legend.TextStyle.Font = true, true, legendGap, sans(textSize)
	if f.Legend != "" {
		legend.Add(f.Legend)
	}
	shared := key{Legend: &legend}
	plots := make([][]*plot.Plot, rows)
	for i := range f.Panels {
		p, err := f.Panels[i].plot(&shared)
		if err != nil {
			return err
		}
		plots[i/columns] = append(plots[i/columns], p)
	}
	for i := range plots {
		for len(plots[i]) < columns {
			plots[i] = append(plots[i], nil)
		}
	}
	tiles := draw.Tiles{
		Rows:      rows,
		Cols:      columns,
		PadX:      panelGap,
		PadY:      panelGap,
		PadTop:    panelGap,
		PadLeft:   panelGap,
		PadBottom: panelGap,
	}
	areas := plot.Align(plots, tiles, draw.Crop(c, 0, -legendWidth, 0, 0))
	for i := range plots {
		for j, p := range plots[i] {
			if p != nil {
				p.Draw(areas[i][j])
			}
		}
	}
	legend.Draw(draw.Crop(c, c.Max.X-legendWidth+panelGap, 0, 0, -panelGap))
	return nil
}

// key is the legend, with the names of the lines and of the marks that it has.
type key struct {
	*plot.Legend
	names, marks []string
}

// add adds a name unless it is in the list.
func (k *key) add(list *[]string, name string, thumbnails ...plot.Thumbnailer) {
	if !slices.Contains(*list, name) {
		*list = append(*list, name)
		k.Add(name, thumbnails...)
	}
}

// plot makes a panel, and adds to the legend the lines and marks that it does not have yet.
func (p *Panel) plot(legend *key) (*plot.Plot, error) {
	out := plot.New()
	out.Title.Text, out.Title.TextStyle.Font = p.Title, sans(textSize+1)
	x, y := p.axes()
	for _, a := range []struct {
		to *plot.Axis
		of axis
	}{{&out.X, x}, {&out.Y, y}} {
		a.to.Label.Text, a.to.Label.TextStyle.Font, a.to.Tick.Label.Font = a.of.label, sans(textSize), sans(tickText)
		a.to.Tick.Marker = plot.TickerFunc(func(float64, float64) []plot.Tick { return a.of.ticks() })
		if a.to.Min, a.to.Max = a.of.min, a.of.max; a.of.log {
			a.to.Scale = plot.LogScale{}
		}
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = grey, grey
	out.Add(grid)
	for _, m := range p.Marks {
		if !(m.X >= x.min && m.X <= x.max) {
			continue
		}
		line, err := plotter.NewLine(plotter.XYs{{X: m.X, Y: y.min}, {X: m.X, Y: y.max}})
		if err != nil {
			return nil, err
		}
		if line.LineStyle = style(dark, axisWidth, m.Dashed); m.Alarm {
			line.LineStyle = style(red, lineWidth, true)
		}
		out.Add(line)
		legend.add(&legend.marks, m.Name, line)
	}
	var drawn []plot.Plotter
	for i := range p.Lines {
		line, err := p.line(&p.Lines[i], legend)
		if err != nil {
			return nil, err
		}
		drawn = append(drawn, line...)
	}
	slices.Reverse(drawn) // the first on top
	out.Add(drawn...)
	out.X.Min, out.X.Max, out.Y.Min, out.Y.Max = x.min, x.max, y.min, y.max // Add may have made the ranges wider
	return out, nil
}

// line returns what is drawn of a line: its marks, if it has some, and then itself.
func (p *Panel) line(l *Line, legend *key) ([]plot.Plotter, error) {
	points := l.points(p.LogX, p.LogY)
	if len(points) == 0 {
		legend.add(&legend.names, l.Name)
		return nil, nil
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	number := slices.Index(legend.names, l.Name)
	if number < 0 {
		number = len(legend.names)
	}
	paint := palette[number%len(palette)]
	if line.LineStyle = style(paint, lineWidth, l.Dashed); l.Faint {
		line.LineStyle = style(paint, faintWidth, l.Dashed)
	}
	if l.Bare || l.Faint {
		legend.add(&legend.names, l.Name, line)
		return []plot.Plotter{line}, nil
	}
	var some plotter.XYs
	for j := 0; j < len(points); j += (len(points) + maxMarkers - 1) / maxMarkers {
		some = append(some, points[j])
	}
	marked, err := plotter.NewScatter(some)
	if err != nil {
		return nil, err
	}
	marked.GlyphStyle = draw.GlyphStyle{Color: paint, Radius: markerSize, Shape: markers[number%len(markers)]}
	legend.add(&legend.names, l.Name, line, marked)
	return []plot.Plotter{marked, line}, nil
}

func style(paint color.Color, width vg.Length, dashed bool) draw.LineStyle {
	s := draw.LineStyle{Color: paint, Width: width}
	if dashed {
		s.Dashes = []vg.Length{dash, dashGap}
	}
	return s
}

// axes returns the axes that the lines of a panel need.
func (p *Panel) axes() (x, y axis) {
	x, y = axis{p.XLabel, p.LogX, math.Inf(1), math.Inf(-1)}, axis{p.YLabel, p.LogY, math.Inf(1), math.Inf(-1)}
	for i := range p.Lines {
		for _, at := range p.Lines[i].points(p.LogX, p.LogY) {
			x.min, x.max = min(x.min, at.X), max(x.max, at.X)
			y.min, y.max = min(y.min, at.Y), max(y.max, at.Y)
		}
	}
	x.settle()
	y.settle()
	return x, y
}
