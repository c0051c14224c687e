package report

import (
	"fmt"
	"io"
)

// InitSummary ends init.
type InitSummary struct {
	Config   string      `json:"config"` // the file that was written
	Model    string      `json:"model"`
	Data     string      `json:"data"`      // the file or topic that was looked at
	Format   string      `json:"format"`    // csv or jsonl
	Rows     int64       `json:"rows"`      // that were looked at
	Task     string      `json:"task"`      // guessed
	Label    string      `json:"label"`     // column or member; of choices their kind, or empty
	LabelWhy string      `json:"label_why"` // why that task
	Fields   []InitField `json:"fields"`    // the other columns, in the order of the file
	Dropped  []Dropped   `json:"dropped"`   // lines of CSV that are no rows, by cause
	Next     []string    `json:"next"`      // a command that tries the configuration
}

// InitField is what init takes a column for.
type InitField struct {
	Name     string `json:"name"`     // of the column or member
	Use      string `json:"use"`      // categorical, numeric, multi, time, identity or left out
	Why      string `json:"why"`      // in words
	Optional bool   `json:"optional"` // some rows lack it
}

// WriteText prints the guesses, one a line, and the command that comes next.
func (s InitSummary) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "wrote %s: %s of %s looked at\n", s.Config, Count(s.Rows, "row"), s.Data)
	rows := [][]string{{"label", s.Label, s.Task + ": " + s.LabelWhy}}
	for _, f := range s.Fields {
		why := f.Why
		if f.Optional {
			why += ", not in every row"
		}
		rows = append(rows, []string{f.Use, f.Name, why})
	}
	if err := table(w, rows); err != nil {
		return err
	}
	writeDropped(w, s.Dropped, nil)
	fmt.Fprintln(w, "try it:")
	return command(w, shellWords(s.Next))
}
