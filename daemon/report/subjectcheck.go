package report

import (
	"fmt"
	"io"
	"strings"
)

// SubjectCheck says what the newest schema of a subject of a registry has for the fields of a model.
type SubjectCheck struct {
	Model   string   `json:"model"`
	Subject string   `json:"subject"` // of the registry
	Version int      `json:"version"` // the newest one
	Format  string   `json:"format"`  // avro, protobuf or json_schema
	Lost    []string `json:"lost"`    // fields of the model for which it has nothing
	Unfit   []string `json:"unfit"`   // fields of the model for which it has another type
}

// WriteText prints one line.
func (s SubjectCheck) WriteText(w io.Writer) error {
	verdict := "has every field"
	switch lost, unfit := strings.Join(s.Lost, ", "), strings.Join(s.Unfit, ", "); {
	case len(s.Lost) > 0 && len(s.Unfit) > 0:
		verdict = "has nothing for " + lost + ", and another type for " + unfit
	case len(s.Lost) > 0:
		verdict = "has nothing for " + lost
	case len(s.Unfit) > 0:
		verdict = "has another type for " + unfit
	}
	_, err := fmt.Fprintf(w, "model %s: version %d of %s (%s) %s\n", s.Model, s.Version, s.Subject, s.Format, verdict)
	return err
}
