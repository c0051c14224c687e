package snapshot

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/verify"
)

// sealed returns a manifest with its last line, the digest of the bytes before it.
func sealed(body []byte) []byte {
	return append(bytes.Clone(body), fmt.Sprintf("  \"manifest_digest\": \"sha256:%s\"\n}\n", disk.HexSum(body))...)
}

// unsealed returns a manifest without its last line.
func unsealed(manifest []byte) []byte {
	return manifest[:bytes.LastIndex(manifest, []byte("  \"manifest_digest\""))]
}

// TestZeroIsAPrediction: where all labels were 0, the model of an output that is the label has no parameter but zeros,
// and says so.
func TestZeroIsAPrediction(t *testing.T) {
	dir := t.TempDir()
	store, c := publish.NewStore(dir), snapshottest.TestContents(snapshottest.Shape{Task: format.Regression,
		Link: format.Identity, Kernel: format.ANOVA, K: 2, Linear: true, Mapped: ""})
	clear(c.Weights)
	clear(c.Linear)
	clear(c.Bias)
	for i := range c.Golden {
		c.Golden[i].Outputs = nil
	}
	if _, err := store.Publish(t.Context(), "m", c); err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir, "m", verify.Selector{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := m.Predict(&c.Golden[0].Input); err != nil || p.Value != 0 {
		t.Errorf("%+v, error %v", p, err)
	}
}
