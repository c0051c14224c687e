package report

import (
	"encoding/json"
	"fmt"
	"io"
)

// ExportField is an input of an exported model.
type ExportField struct {
	Name string `json:"name"` // of the input
	Kind string `json:"kind"` // categorical, multi or numeric
	Type string `json:"type"` // string or float64

	Optional bool `json:"optional"` // an event may lack it: "" or NaN; without another one the outputs are NaN
}

// ExportSummary ends versions export onnx.
type ExportSummary struct {
	Model         string        `json:"model"`
	Version       int64         `json:"version"`
	PayloadDigest string        `json:"payload_digest"`
	Output        string        `json:"output"`  // path of the file
	Bytes         int           `json:"bytes"`   // written
	Opset         int           `json:"opset"`   // of ONNX
	Tensors       string        `json:"tensors"` // f64 or f32
	Inputs        []ExportField `json:"inputs"`  // in the order of the file
}

// WriteText prints what was written and its inputs.
func (s ExportSummary) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "version %d of %s written to %s: %d bytes, opset %d, %s\n", s.Version, s.Model, s.Output, s.Bytes,
		s.Opset, s.Tensors)
	rows := [][]string{{"input", "field", "type"}}
	for _, f := range s.Inputs {
		rows = append(rows, []string{f.Name, f.Kind, f.Type})
	}
	return table(w, rows)
}

// VectorsSummary ends versions export vectors.
type VectorsSummary struct {
	Model         string `json:"model"`
	Version       int64  `json:"version"`
	PayloadDigest string `json:"payload_digest"`
	Names         int    `json:"names"`  // each with a vector
	Dim           int    `json:"dim"`    // numbers of a vector
	Output        string `json:"output"` // path of the file
}

// WriteText prints what was written.
func (s VectorsSummary) WriteText(w io.Writer) error {
	return say(w, "version %d of %s written to %s: %d names, vectors of %d numbers\n", s.Version, s.Model, s.Output,
		s.Names, s.Dim)
}

// OCISummary ends versions export oci.
type OCISummary struct {
	Model           string `json:"model"`
	Version         int64  `json:"version"`
	VersionDigest   string `json:"version_digest"`             // of its manifest
	Reference       string `json:"reference"`                  // repository and tag
	ImageDigest     string `json:"image_digest"`               // of the image, an index of one for each architecture
	SignatureDigest string `json:"signature_digest,omitempty"` // of the referrer that has model.sig
	Bytes           int64  `json:"bytes"`                      // of the layer
}

// WriteText prints what was written.
func (s OCISummary) WriteText(w io.Writer) error {
	return say(w, "version %d of %s written to %s: %d bytes, %s\n", s.Version, s.Model, s.Reference, s.Bytes,
		s.ImageDigest)
}

// SampleRow is a row of a sample exported to standard output with --json: Event of JSON Lines, Text of LIBSVM.
type SampleRow struct {
	Event json.RawMessage `json:"event,omitempty"` // of jsonl
	Text  string          `json:"text,omitempty"`  // of libsvm
}

// WriteText prints the row.
func (r SampleRow) WriteText(w io.Writer) error {
	return say(w, "%s%s\n", r.Event, r.Text)
}

// SampleSummary ends versions export jsonl and versions export libsvm.
type SampleSummary struct {
	Model        string     `json:"model"`
	Lineage      string     `json:"lineage"`
	SampleDigest string     `json:"sample_digest"`
	Rows         SampleRows `json:"rows"`              // written
	Columns      int        `json:"columns,omitempty"` // of LIBSVM rows
	Output       string     `json:"output"`            // path of the file, or -
}

// WriteText prints the counts.
func (s SampleSummary) WriteText(w io.Writer) error {
	return say(w, "%d training and %d held-out rows of %s written to %s, sample %s\n", s.Rows.Train, s.Rows.Holdout,
		s.Model, s.Output, s.SampleDigest)
}

// ReproduceSummary ends versions reproduce.
type ReproduceSummary struct {
	Model            string   `json:"model"`
	Version          int64    `json:"version"`
	Equal            bool     `json:"equal"`             // the payloads are
	PayloadDigest    string   `json:"payload_digest"`    // as published
	ReproducedDigest string   `json:"reproduced_digest"` // as rebuilt
	Status           string   `json:"status"`            // of the refit that was made again
	Warm             bool     `json:"warm"`
	Differences      []string `json:"differences"` // of payload and settings, for people
}

// WriteText prints the verdict and what differs.
func (s ReproduceSummary) WriteText(w io.Writer) error {
	if s.Equal {
		return say(w, "version %d of %s was rebuilt to the same payload, %s\n", s.Version, s.Model, s.PayloadDigest)
	}
	fmt.Fprintf(w, "version %d of %s: rebuilt to %s, published as %s\n", s.Version, s.Model, s.ReproducedDigest,
		s.PayloadDigest)
	for _, d := range s.Differences {
		fmt.Fprintln(w, d)
	}
	return nil
}
