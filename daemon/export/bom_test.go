package export

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math"
	"regexp"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// TestBOM: the bill of materials names the version, its files, topics, fields and finite measures, and is the same each
// time.
func TestBOM(t *testing.T) {
	loss, none := format.Number(0.75), format.Number(math.NaN())
	m := &snapshot.Manifest{
		Model:         "ratings",
		Version:       7,
		Kernel:        "anova",
		Degree:        2,
		Link:          "identity",
		NumBasis:      3,
		NumFeatures:   9,
		NumOutputs:    1,
		Digest:        "sha256:" + hash("manifest"),
		PayloadDigest: "sha256:" + hash("payload"),
		Files:         []format.File{{Name: "golden.jsonl", SHA256: hash("file")}},
		Schema: snapshot.Schema{
			Task:        format.Regression,
			Label:       "y",
			Categorical: []string{"user"},
			Numeric:     []format.NumericField{{Name: "age"}},
			Multi:       []string{"tags"},
		},
		Meta: format.Meta{
			Writer:   "refitd 0.1.0",
			Kind:     "refit",
			Decision: "promoted",
			Created:  time.Unix(1_750_000_000, 0),
			Rows:     12,
			Cut: []format.Cut{
				{Topic: "ratings", Partition: 2, Next: 99},
			},
			Gate: &format.Metrics{N: 5, Loss: &loss, RMSE: &none},
		},
	}
	b, err := BOM(m)
	if err != nil {
		t.Fatal(err)
	}
	var got bom
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	c := got.Metadata.Component
	if got.Spec != "1.6" || !regexp.MustCompile(
		"^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$").MatchString(got.Serial) ||
		c.Name != "ratings" || c.Version != "7" ||
		c.Hashes[0].Content != hash("manifest") ||
		got.Metadata.Tools.Components[0].Version != "0.1.0" {
		t.Errorf("%s", b)
	}
	p := c.Card.Parameters
	if len(p.Inputs) != 3 || p.Datasets[0].Name != "ratings/2" || len(c.Card.Analysis.Metrics) != 1 ||
		c.Card.Analysis.Metrics[0].Value != "0.75" ||
		c.Card.Analysis.Metrics[0].Type != "loss" ||
		len(got.Parts) != 1 ||
		got.Parts[0].Hashes[0].Content != hash("file") {
		t.Errorf("%s", b)
	}
	if again, err := BOM(m); err != nil || string(again) != string(b) {
		t.Errorf("%v, not the same again: %s", err, again)
	}
}

// TestProgramBOM: the bill of materials of a program names what is linked at its versions, replaced modules by what
// replaces them, and is the same each time.
func TestProgramBOM(t *testing.T) {
	sum := sha256.Sum256([]byte("module"))
	info := &debug.BuildInfo{
		GoVersion: "go1.26.3",
		Path:      "example.org/m/cmd/program",
		Main:      debug.Module{Path: "example.org/m", Version: "(devel)"},
		Deps: []*debug.Module{
			{
				Path:    "example.org/b",
				Version: "v2.0.0+incompatible",
				Sum:     "h1:" + base64.StdEncoding.EncodeToString(sum[:]),
			},
			{
				Path:    "example.org/a",
				Version: "v1.0.0",
				Replace: &debug.Module{Path: "example.org/fork", Version: "v1.0.1"},
			},
		},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc"},
			{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
			{Key: "-ldflags", Value: "-X secret"},
		},
	}
	b, err := ProgramBOM(info, "0.1.0", map[string][]string{"example.org/b": {"MIT", "ISC"}})
	if err != nil {
		t.Fatal(err)
	}
	var got bom
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	c := got.Metadata.Component
	if got.Spec != "1.6" || got.Metadata.Timestamp != "2026-01-02T03:04:05Z" || c.Type != "application" ||
		c.Name != "program" || c.Version != "0.1.0" ||
		c.PURL != "pkg:golang/example.org/m@v0.1.0" ||
		len(c.Properties) != 1 ||
		c.Properties[0].Value != "abc" {
		t.Errorf("%s", b)
	}
	var purls []string
	for _, p := range got.Parts {
		purls = append(purls, p.PURL)
	}
	if want := []string{"pkg:golang/example.org/b@v2.0.0%2Bincompatible", "pkg:golang/example.org/fork@v1.0.1",
		"pkg:golang/std@1.26.3"}; !slices.Equal(purls, want) ||
		len(got.Dependencies) != 1 || got.Dependencies[0].Ref != c.Ref || !slices.Equal(got.Dependencies[0].On, want) {
		t.Errorf("%q, want %q: %s", purls, want, b)
	}
	if p := got.Parts[0]; len(p.Licences) != 2 || p.Licences[1].Licence.ID != "ISC" ||
		p.Hashes[0].Content != hex.EncodeToString(sum[:]) {
		t.Errorf("%s", b)
	}
	if again, err := ProgramBOM(info, "0.1.0", map[string][]string{"example.org/b": {"MIT", "ISC"}}); err != nil ||
		string(again) != string(b) {
		t.Errorf("%v, not the same again: %s", err, again)
	}
}

// hash is a digest to recognise.
func hash(of string) string {
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:])
}
