package export

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot"
)

// TestBOM: the bill of materials names the version, its files, topics, fields and finite measures, and is the same each time.
func TestBOM(t *testing.T) {
	loss, none := snapshot.Number(0.75), snapshot.Number(math.NaN())
	m := &snapshot.Manifest{Model: "ratings", Version: 7, Kernel: "anova", Degree: 2, Link: "identity", NumBasis: 3, NumFeatures: 9, NumOutputs: 1,
		Digest: "sha256:" + hash("manifest"), PayloadDigest: "sha256:" + hash("payload"), Files: []snapshot.File{{Name: "golden.jsonl", SHA256: hash("file")}},
		Schema: snapshot.Schema{Task: snapshot.Regression, Label: "y", Categorical: []string{"user"}, Numeric: []snapshot.NumericField{{Name: "age"}},
			Multi: []string{"tags"}},
		Meta: snapshot.Meta{Writer: "refitd 0.1.0", Kind: "refit", Decision: "promoted", Created: time.Unix(1_750_000_000, 0), Rows: 12,
			Cut: []snapshot.Cut{{Topic: "ratings", Partition: 2, Next: 99}}, Gate: &snapshot.Metrics{N: 5, Loss: &loss, RMSE: &none}}}
	b, err := BOM(m)
	if err != nil {
		t.Fatal(err)
	}
	var got bom
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	c := got.Metadata.Component
	if got.Spec != "1.6" || !regexp.MustCompile("^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$").MatchString(got.Serial) ||
		c.Name != "ratings" || c.Version != "7" || c.Hashes[0].Content != hash("manifest") || got.Metadata.Tools.Components[0].Version != "0.1.0" {
		t.Errorf("%s", b)
	}
	p := c.Card.Parameters
	if len(p.Inputs) != 3 || p.Datasets[0].Name != "ratings/2" || len(c.Card.Analysis.Metrics) != 1 || c.Card.Analysis.Metrics[0].Value != "0.75" ||
		c.Card.Analysis.Metrics[0].Type != "loss" || len(got.Parts) != 1 || got.Parts[0].Hashes[0].Content != hash("file") {
		t.Errorf("%s", b)
	}
	if again, err := BOM(m); err != nil || string(again) != string(b) {
		t.Errorf("%v, not the same again: %s", err, again)
	}
}

// hash is a digest to recognise.
func hash(of string) string {
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:])
}
