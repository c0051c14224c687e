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
}

// WriteText prints one line.
func (s SubjectCheck) WriteText(w io.Writer) error {
	verdict := "has every field"
	if len(s.Lost) > 0 {
		verdict = "has nothing for " + strings.Join(s.Lost, ", ")
	}
	_, err := fmt.Fprintf(w, "model %s: version %d of %s (%s) %s\n", s.Model, s.Version, s.Subject, s.Format, verdict)
	return err
}
