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

// palette is that of Okabe and Ito (2008), which people with any of the common kinds of colour blindness can tell apart, without its
// yellow, which is too pale for a line on white.
var palette = []color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {230, 159, 0, 255}, {86, 180, 233, 255}, {0, 0, 0, 255},
}

// glyphs go round with another period than the colours, so that lines differ in shape as well.
var glyphs = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.PlusGlyph{},
}

const (
	lineWidth = 1.2 // points
	glyphSize = 2.2
	textSize  = 10
	// maxGlyphs is the largest number of markers on a line; a longer line has one at every n-th point.
	maxGlyphs = 25
	legendGap = 8
	panelGap  = 10
)

var dashes = []vg.Length{vg.Points(5), vg.Points(3)}

// draw draws the panels into equal tiles and the legend on the right.
func (f *Figure) draw(c draw.Canvas, columns, rows int) {
	c.FillPolygon(color.White, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})
	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	legend.TextStyle.Font = sans(textSize)
	legend.Padding = vg.Points(3)
	if f.Legend != "" {
		legend.Add(f.Legend)
	}
	var names []string
	charts := make([][]*plot.Plot, rows)
	for r := range charts {
		charts[r] = make([]*plot.Plot, columns)
	}
	for i := range f.Panels {
		p := &f.Panels[i]
		chart := newChart(p)
		for l := range p.Lines {
			at := slices.Index(names, p.Lines[l].Name)
			isNew := at < 0
			if isNew {
				at = len(names)
				names = append(names, p.Lines[l].Name)
			}
			thumbs := addLine(chart, p, &p.Lines[l], at)
			if isNew {
				legend.Add(p.Lines[l].Name, thumbs...)
			}
		}
		settle(chart)
		charts[i/columns][i%columns] = chart
	}
	area := draw.Crop(c, 0, -legendWidth, 0, 0)
	gap := vg.Points(panelGap)
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: gap, PadY: gap, PadTop: gap, PadBottom: gap, PadLeft: gap, PadRight: gap}
	for r, row := range plot.Align(charts, tiles, area) {
		for col, tile := range row {
			if charts[r][col] != nil {
				charts[r][col].Draw(tile)
			}
		}
	}
	legend.Draw(draw.Crop(c, c.Max.X-c.Min.X-legendWidth+vg.Points(legendGap), 0, 0, -2*gap))
}

// newChart returns an empty chart with its labels and axes.
func newChart(p *Panel) *plot.Plot {
	chart := plot.New()
	chart.Title.Text = p.Title
	chart.Title.TextStyle.Font = sans(textSize + 1)
	chart.Title.Padding = vg.Points(4)
	for _, a := range []struct {
		axis  *plot.Axis
		label string
		log   bool
	}{{&chart.X, p.XLabel, p.LogX}, {&chart.Y, p.YLabel, p.LogY}} {
		a.axis.Label.Text = a.label
		a.axis.Label.TextStyle.Font = sans(textSize)
		a.axis.Tick.Label.Font = sans(textSize - 1)
		if a.log {
			a.axis.Scale = plot.LogScale{}
			a.axis.Tick.Marker = plot.LogTicks{Prec: -1}
		}
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{230}, color.Gray{230}
	chart.Add(grid)
	return chart
}

func sans(size float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
}

// addLine adds a line in the style of the given number and returns what stands for it in the legend.
func addLine(chart *plot.Plot, p *Panel, l *Line, style int) []plot.Thumbnailer {
	x, y := l.points(p.LogX, p.LogY)
	points := make(plotter.XYs, len(x))
	for i := range x {
		points[i] = plotter.XY{X: x[i], Y: y[i]}
	}
	line := &plotter.Line{XYs: points, LineStyle: draw.LineStyle{Color: palette[style%len(palette)], Width: vg.Points(lineWidth)}}
	if l.Dashed {
		line.Dashes = dashes
	}
	every := (len(points) + maxGlyphs - 1) / maxGlyphs
	var marked plotter.XYs
	for i := 0; i < len(points); i += every {
		marked = append(marked, points[i])
	}
	marks := &plotter.Scatter{XYs: marked, GlyphStyle: draw.GlyphStyle{Color: line.Color, Radius: vg.Points(glyphSize), Shape: glyphs[style%len(glyphs)]}}
	if len(points) > 0 {
		chart.Add(line)
		if !l.Bare {
			chart.Add(marks)
		}
	}
	if l.Bare {
		return []plot.Thumbnailer{line}
	}
	return []plot.Thumbnailer{line, marks}
}

// settle gives axes without data, or with a single value, a range that can be drawn.
func settle(chart *plot.Plot) {
	for _, axis := range []*plot.Axis{&chart.X, &chart.Y} {
		_, log := axis.Scale.(plot.LogScale)
		switch {
		case axis.Min > axis.Max && log:
			axis.Min, axis.Max = 1, 10
		case axis.Min > axis.Max:
			axis.Min, axis.Max = 0, 1
		case axis.Min == axis.Max && log:
			axis.Min, axis.Max = axis.Min/2, axis.Max*2
		case axis.Min == axis.Max:
			pad := math.Max(0.5, 0.05*math.Abs(axis.Min))
			axis.Min, axis.Max = axis.Min-pad, axis.Max+pad
		}
	}
}
