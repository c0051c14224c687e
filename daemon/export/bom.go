package export

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// The parts of a bill of materials in CycloneDX 1.6 (ECMA-424) that a version or a program has.
type (
	bom struct {
		Format       string          `json:"bomFormat"`
		Spec         string          `json:"specVersion"`
		Serial       string          `json:"serialNumber"`
		Version      int             `json:"version"`
		Metadata     bomMetadata     `json:"metadata"`
		Parts        []bomComponent  `json:"components,omitempty"`
		Dependencies []bomDependency `json:"dependencies,omitempty"`
	}
	bomMetadata struct {
		Timestamp string       `json:"timestamp,omitempty"`
		Tools     bomTools     `json:"tools,omitzero"`
		Component bomComponent `json:"component"`
	}
	bomDependency struct {
		Ref string   `json:"ref"`
		On  []string `json:"dependsOn"`
	}
	bomLicence struct {
		Licence bomLicenceID `json:"license"`
	}
	bomLicenceID struct {
		ID string `json:"id"` // of SPDX
	}
	bomTools struct {
		Components []bomComponent `json:"components"`
	}
	bomComponent struct {
		Type       string        `json:"type"`
		Ref        string        `json:"bom-ref,omitempty"`
		Name       string        `json:"name"`
		Version    string        `json:"version,omitempty"`
		Hashes     []bomHash     `json:"hashes,omitempty"`
		Licences   []bomLicence  `json:"licenses,omitempty"`
		PURL       string        `json:"purl,omitempty"`
		Card       *modelCard    `json:"modelCard,omitempty"`
		Properties []bomProperty `json:"properties,omitempty"`
	}
	bomHash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	bomProperty struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	modelCard struct {
		Parameters cardParameters `json:"modelParameters"`
		Analysis   *cardAnalysis  `json:"quantitativeAnalysis,omitempty"`
	}
	cardParameters struct {
		Approach     map[string]string   `json:"approach"`
		Task         string              `json:"task"`
		Family       string              `json:"architectureFamily"`
		Architecture string              `json:"modelArchitecture"`
		Datasets     []cardDataset       `json:"datasets,omitempty"`
		Inputs       []map[string]string `json:"inputs,omitempty"`
		Outputs      []map[string]string `json:"outputs,omitempty"`
	}
	cardDataset struct {
		Type        string `json:"type"`
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	cardAnalysis struct {
		Metrics []cardMetric `json:"performanceMetrics"`
	}
	cardMetric struct {
		Type  string `json:"type"`
		Value string `json:"value"`
		Slice string `json:"slice"`
	}
)

// BOM returns the bill of materials of a version in CycloneDX 1.6: the model with its card (task, architecture, the
// topics that it has learned from and how far, fields, losses on held-out rows), its files with their digests, and the
// program that made it. It depends on the manifest alone.
func BOM(m *snapshot.Manifest) ([]byte, error) {
	digest := sha256.Sum256([]byte(m.Digest))
	name, version, _ := strings.Cut(m.Writer, " ")
	card := &modelCard{
		Parameters: cardParameters{
			Approach: map[string]string{"type": "supervised"},
			Task:     m.Schema.Task,
			Family:   "factorization machine",
			Architecture: fmt.Sprintf("%s of degree %d, %d basis vectors, %d features, %d outputs, link %s", m.Kernel,
				m.Degree, m.NumBasis, m.NumFeatures, m.NumOutputs, m.Link),
		},
	}
	for _, c := range m.Cut {
		card.Parameters.Datasets = append(
			card.Parameters.Datasets,
			cardDataset{"dataset", fmt.Sprintf("%s/%d", c.Topic, c.Partition),
				fmt.Sprintf("Kafka topic %s, partition %d, up to offset %d", c.Topic, c.Partition, c.Next)},
		)
	}
	input := func(kind, name string) {
		card.Parameters.Inputs = append(card.Parameters.Inputs, map[string]string{"format": kind + " " + name})
	}
	for _, name := range m.Schema.Categorical {
		input("categorical", name)
	}
	for _, f := range m.Schema.Numeric {
		input("number", f.Name)
	}
	for _, name := range m.Schema.Multi {
		input("list", name)
	}
	card.Parameters.Outputs = []map[string]string{{"format": m.Schema.Task + " " + m.Schema.Label}}
	measured := append(
		measures(m.Gate, "held-out rows of the gate"),
		measures(m.Select, "held-out rows of the selection")...)
	if measured != nil {
		card.Analysis = &cardAnalysis{measured}
	}
	model := bomComponent{
		Type:    "machine-learning-model",
		Name:    m.Model,
		Version: strconv.FormatInt(m.Version, 10),
		Card:    card,
		Hashes:  []bomHash{{"SHA-256", bare(m.Digest)}},
	}
	for _, p := range []bomProperty{{"refitd:kind", m.Kind}, {"refitd:decision", m.Decision}, {"refitd:reason", m.Reason},
		{"refitd:status", m.Status},
		{"refitd:loss", m.Loss}, {"refitd:rows", strconv.FormatInt(m.Rows, 10)}, {"refitd:payload_digest", m.PayloadDigest},
		{"refitd:key_id", m.KeyID}} {
		if p.Value != "" {
			model.Properties = append(model.Properties, p)
		}
	}
	out := bom{Format: "CycloneDX", Spec: "1.6", Version: 1, Serial: serial(digest[:]),
		Metadata: bomMetadata{Timestamp: m.Created.UTC().Format(time.RFC3339), Component: model,
			Tools: bomTools{[]bomComponent{{Type: "application", Name: name, Version: version}}}}}
	for _, f := range m.ReadFiles() {
		out.Parts = append(out.Parts,
			bomComponent{Type: "file", Name: f.Name, Hashes: []bomHash{{"SHA-256", bare(f.SHA256)}}})
	}
	return out.encode()
}

// encode returns the document as text.
func (b *bom) encode() ([]byte, error) {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("export: bill of materials: %w", err)
	}
	return append(text, '\n'), nil
}

// serial is a UUID for what a digest is of, so that the same content has the same.
func serial(digest []byte) string {
	id := hex.EncodeToString(digest[:16])
	return fmt.Sprintf("urn:uuid:%s-%s-4%s-8%s-%s", id[:8], id[8:12], id[13:16], id[17:20], id[20:])
}

// bare returns a digest without the name of its kind.
func bare(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

// measures returns those of held-out rows that are finite, by their names in manifests.
func measures(m *format.Metrics, slice string) (list []cardMetric) {
	if m == nil {
		return nil
	}
	of := reflect.ValueOf(*m)
	for i := range of.NumField() {
		v, ok := of.Field(i).Interface().(*format.Number)
		if !ok || v == nil || math.IsNaN(float64(*v)) || math.IsInf(float64(*v), 0) {
			continue
		}
		name, _, _ := strings.Cut(of.Type().Field(i).Tag.Get("json"), ",")
		list = append(list, cardMetric{name, strconv.FormatFloat(float64(*v), 'g', -1, 64), slice})
	}
	return list
}
