package report

import (
	"fmt"
	"io"
)

// MappedEvent says what becomes of a record under the configuration of one model.
type MappedEvent struct {
	Model    string `json:"model"`
	Result   string `json:"result"`             // accepted, filtered or rejected
	Reason   string `json:"reason,omitempty"`   // of a record that is no event
	Field    string `json:"field,omitempty"`    // that the reason is about
	Expected string `json:"expected,omitempty"` // in its place
	Got      string `json:"got,omitempty"`      // what there is
	// of its time, as it seems, where schema.time_unit makes it a day of 1970
	TrueUnit string        `json:"true_unit,omitempty"`
	Fields   []MappedField `json:"fields"` // of the schema, in its order; of a filtered record none
}

// MappedField is what a field of the schema gets of a record.
type MappedField struct {
	Name  string `json:"name"`            // of the field
	From  string `json:"from"`            // its place by input.mapping, or by its name
	Value any    `json:"value,omitempty"` // as it was found, before it is checked; absent for nothing
}

// WriteText prints a line for the record and one for each field.
func (e MappedEvent) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "model %s: %s", e.Model, e.Result)
	if e.Reason != "" {
		if e.Reason != e.Result {
			fmt.Fprintf(w, ": %s", e.Reason)
		}
		if e.Field != "" {
			fmt.Fprintf(w, ": field %q", e.Field)
		}
		if e.Expected != "" {
			fmt.Fprintf(w, ": expected %s, got %s", e.Expected, e.Got)
		}
	}
	fmt.Fprintln(w)
	if e.TrueUnit != "" {
		fmt.Fprintf(w, "  its time is a day of 1970: it seems to be of unit %s, say schema.time_unit: %s\n", e.TrueUnit,
			e.TrueUnit)
	}
	var rows [][]string
	for _, f := range e.Fields {
		value := "(nothing)"
		if f.Value != nil {
			value = fmt.Sprintf("%s", f.Value)
		}
		rows = append(rows, []string{"  " + f.Name, f.From, value})
	}
	return table(w, rows)
}
