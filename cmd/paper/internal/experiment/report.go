package experiment

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/refitd/refitd/daemon/plot"
)

// ErrBelow is wrapped by the error about bars that were missed.
var ErrBelow = errors.New("paper: below the bar")

// Report is the outcome of an experiment.
type Report struct {
	Name    string // of its files
	Tables  []Table
	Numbers []Table // written as CSV only: what the figures show
	Figures []Figure
	Bars    []Bar
}

// Table is a table of texts. Rows are as long as Header.
type Table struct {
	Name   string // of its CSV file, after that of the report; empty for the main table
	Title  string
	Header []string
	Rows   [][]string
	Notes  []string // printed below it
}

// Figure is a figure with the name of its files, after that of the report.
type Figure struct {
	Name string
	plot.Figure
}

// add appends a row of values, floats with digits that suit their size.
func (t *Table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		if v, ok := c.(float64); ok {
			row[i] = fmt.Sprintf("%.6g", v)
		} else {
			row[i] = fmt.Sprint(c)
		}
	}
	t.Rows = append(t.Rows, row)
}

// Write prints tables and bars as Markdown to w and writes them, the numbers as CSV and the figures as SVG and PNG into
// dir, which it makes.
// The error wraps ErrBelow if a bar was missed.
func (r *Report) Write(w io.Writer, dir string) error {
	var text strings.Builder
	for i := range r.Tables {
		r.Tables[i].markdown(&text)
	}
	below := writeBars(&text, r.Bars)
	if _, err := io.WriteString(w, text.String()); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("paper: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, r.Name+".md"), []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("paper: %w", err)
	}
	for _, tables := range [][]Table{r.Tables, r.Numbers} {
		for i := range tables {
			if err := tables[i].csv(filepath.Join(dir, r.file(tables[i].Name)+".csv")); err != nil {
				return err
			}
		}
	}
	for i := range r.Figures {
		for _, extension := range []string{".svg", ".png"} {
			if err := r.Figures[i].Write(filepath.Join(dir, r.file(r.Figures[i].Name)+extension)); err != nil {
				return err
			}
		}
	}
	if below > 0 {
		return fmt.Errorf("%w: %d of %d", ErrBelow, below, len(r.Bars))
	}
	return nil
}

func (r *Report) file(name string) string {
	if name == "" {
		return r.Name
	}
	return r.Name + "-" + name
}

// markdown writes the table with its columns aligned.
func (t *Table) markdown(w *strings.Builder) {
	rows := append([][]string{t.Header}, t.Rows...)
	widths := make([]int, len(t.Header))
	for _, row := range rows {
		for c, cell := range row {
			widths[c] = max(widths[c], len([]rune(cell)))
		}
	}
	line := func(cells []string, fill string) {
		w.WriteByte('|')
		for c, cell := range cells {
			fmt.Fprintf(w, " %s%s |", cell, strings.Repeat(fill, widths[c]-len([]rune(cell))))
		}
		w.WriteByte('\n')
	}
	fmt.Fprintf(w, "%s\n\n", t.Title)
	line(t.Header, " ")
	line(make([]string, len(t.Header)), "-")
	for _, row := range t.Rows {
		line(row, " ")
	}
	w.WriteByte('\n')
	for _, note := range t.Notes {
		fmt.Fprintf(w, "%s\n\n", note)
	}
}

func (t *Table) csv(path string) error {
	var text strings.Builder
	c := csv.NewWriter(&text)
	if err := c.WriteAll(append([][]string{t.Header}, t.Rows...)); err != nil {
		return fmt.Errorf("paper: %s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("paper: %w", err)
	}
	return nil
}

// Bar is a figure that an experiment must reach: at least Want, or at most Want.
type Bar struct {
	Name   string
	Got    float64
	AtMost bool
	Want   float64
}

// IsMet reports whether the figure was reached. A figure that is not a number was not.
func (b *Bar) IsMet() bool {
	if b.AtMost {
		return b.Got <= b.Want
	}
	return b.Got >= b.Want
}

// writeBars writes one line for each bar and returns how many were missed.
func writeBars(w *strings.Builder, bars []Bar) (below int) {
	for i := range bars {
		b := &bars[i]
		verdict, sign := "PASS ", "≥"
		if b.AtMost {
			sign = "≤"
		}
		if !b.IsMet() {
			verdict = "below"
			below++
		}
		fmt.Fprintf(w, "%s  %s: %.5g, bar %s %.5g\n", verdict, b.Name, b.Got, sign, b.Want)
	}
	return below
}
