// Package plot draws line charts into SVG and PNG files: panels side by side with one legend. It knows nothing of what
// the lines mean.
package plot

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// ErrFormat is wrapped by the complaint about a file name that ends neither in .svg nor in .png.
var ErrFormat = errors.New("plot: a figure is written as .svg or .png")

// Figure is a set of panels, Columns to a row, with one legend on the right: lines of the same name look the same in
// every panel.
type Figure struct {
	Columns int // at least 1
	Panels  []Panel
	Legend  string // heading of the legend; may be empty
}

// Panel is one chart. The axis labels carry the unit.
type Panel struct {
	Title      string
	XLabel     string
	YLabel     string
	LogX, LogY bool // logarithmic axis: values that are not positive are left out
	Lines      []Line
	Marks      []Mark
}

// Mark is a line across a panel where something happened. Marks of the same name look the same and stand in the legend
// once; those that are outside of what the lines span, or not finite, are left out.
type Mark struct {
	Name   string
	X      float64
	Dashed bool
	Alarm  bool // red and dashed, whatever Dashed is
}

// Line is one series. Points that are not finite are left out. X and Y have the same length.
type Line struct {
	Name   string
	X, Y   []float64
	Dashed bool
	Bare   bool // without markers: a level, or a line of very many points
	Faint  bool // thin and without markers: not what the panel is about
}

// Check returns an error that wraps ErrFormat unless path ends in .svg or .png, in any case.
func Check(path string) error {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".svg", ".png":
		return nil
	}
	return fmt.Errorf("%w, not as %q", ErrFormat, filepath.Ext(path))
}

// The sizes of panels and of the legend in points, legible on a page and on a screen: 12 by 9 centimetres, and 5.
const (
	panelWidth  = 340
	panelHeight = 255
	legendWidth = 142
	pngDPI      = 144 // two pixels of a PNG to a point
)

// Write draws the figure into a file whose name ends in .svg or .png. Equal figures give equal files.
func (f *Figure) Write(path string) error {
	if err := Check(path); err != nil {
		return err
	}
	if len(f.Panels) == 0 || f.Columns < 1 {
		return fmt.Errorf("plot: %s: a figure of %d panels in %d columns", path, len(f.Panels), f.Columns)
	}
	columns := min(f.Columns, len(f.Panels))
	rows := (len(f.Panels) + columns - 1) / columns
	width, height := vg.Length(columns)*panelWidth+legendWidth, vg.Length(rows)*panelHeight
	var out vg.CanvasWriterTo
	if strings.EqualFold(filepath.Ext(path), ".svg") {
		out = vgsvg.New(width, height)
	} else {
		out = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(pngDPI))}
	}
	if err := f.draw(draw.New(out), columns, rows); err != nil {
		return fmt.Errorf("plot: %s: %w", path, err)
	}
	var file bytes.Buffer
	if _, err := out.WriteTo(&file); err != nil {
		return fmt.Errorf("plot: %s: %w", path, err)
	}
	if err := os.WriteFile(path, file.Bytes(), 0o644); err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}

// points returns the points of a line that the axes of its panel can show.
func (l *Line) points(logX, logY bool) (list plotter.XYs) {
	shown := func(v float64, log bool) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) && (!log || v > 0) }
	for i := range l.X {
		if shown(l.X[i], logX) && shown(l.Y[i], logY) {
			list = append(list, plotter.XY{X: l.X[i], Y: l.Y[i]})
		}
	}
	return list
}
