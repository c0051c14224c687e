package report

import (
	"fmt"
	"io"
)

// InitSummary ends init.
type InitSummary struct {
	Config   string        `json:"config"` // the file that was written
	Model    string        `json:"model"`
	Data     string        `json:"data"`               // the file or topic that was looked at
	Format   string        `json:"format"`             // csv or jsonl
	Rows     int64         `json:"rows"`               // that were looked at
	Task     string        `json:"task"`               // guessed
	Label    string        `json:"label"`              // column or member; of choices their kind, or empty
	LabelWhy string        `json:"label_why"`          // why that task
	Fields   []InitField   `json:"fields"`             // the other columns, in the order of the file
	Outcomes *InitOutcomes `json:"outcomes,omitempty"` // of a second file or topic; absent without
	Dropped  []Dropped     `json:"dropped"`            // lines of CSV that are no rows, by cause
	Next     []string      `json:"next"`               // a command that tries the configuration
}

// InitField is what init takes a column for.
type InitField struct {
	Name     string `json:"name"`     // of the column or member
	Use      string `json:"use"`      // categorical, numeric, multi, time, identity or left out
	Why      string `json:"why"`      // in words
	Optional bool   `json:"optional"` // some rows lack it
}

// InitOutcomes is how init found that events and their outcomes join.
type InitOutcomes struct {
	Data      string `json:"data"`       // the file or topic of the outcomes
	Rows      int64  `json:"rows"`       // that were looked at
	Event     string `json:"event"`      // field of events that outcomes name
	Outcome   string `json:"outcome"`    // where outcomes have it
	Matched   int64  `json:"matched"`    // outcomes whose event was looked at
	Why       string `json:"why"`        // why these two, in words
	Window    string `json:"window"`     // guessed
	WindowWhy string `json:"window_why"` // in words
	Label     string `json:"label"`      // field of outcomes with their value, or empty
	Reward    string `json:"reward"`     // of several outcomes
}

// WriteText prints the guesses, one a line, and the command that comes next.
func (s InitSummary) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "wrote %s: %s of %s looked at\n", s.Config, Count(s.Rows, "row"), s.Data)
	rows := [][]string{{"label", s.Label, s.Task + ": " + s.LabelWhy}}
	if o := s.Outcomes; o != nil {
		rows = append(rows, []string{"outcomes", o.Outcome + " is " + o.Event, o.Why},
			[]string{"window", o.Window, o.WindowWhy})
	}
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
