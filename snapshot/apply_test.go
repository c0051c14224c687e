package snapshot

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"reflect"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/verify"
)

// What the deltas in testdata/deltas1 lead to from the version in testdata/v1.
const (
	firstDeltas       = "testdata/deltas1"
	firstDeltaPayload = "sha256:649446d2cac1eadeaf4f60bdc3f97a398ffa52eb57423acfc373b3b99acbf50b"
	firstDeltaDigest  = "sha256:1a1989c2475821204ff247cbdaa4a72cbe0ab4878f4a8462dbc01f1f77b0cbe6"
)

var firstDeltaOutputs = []float64{-0.03125, 0.4375}

// testdata/deltas1 was written by the first build that had this format, signed with the key of SignerOf(t, 1). It is
// never written again.
func TestFirstDeltaFormat(t *testing.T) {
	m, err := Open("testdata/v1", "ratings", verify.Selector{})
	snapshottest.Must(t, err)
	b, err := os.ReadFile(firstDeltas)
	snapshottest.Must(t, err)
	r, cuts := bytes.NewReader(b), [][]format.Cut(nil)
	for {
		frame, err := format.ReadFrame(r)
		if err == io.EOF {
			break
		}
		snapshottest.Must(t, err)
		d, err := format.DecodeDelta(frame, m.Shape(), snapshottest.SignerOf(t, 1).Keys())
		snapshottest.Must(t, err)
		m, err = m.Apply(d)
		snapshottest.Must(t, err)
		cuts = append(cuts, m.Position().Cut)
	}
	want := [][]format.Cut{
		{{Topic: "ratings", Partition: 0, Next: 115}, {Topic: "ratings", Partition: 1, Next: 50}},
		{{Topic: "ratings", Partition: 0, Next: 120}, {Topic: "ratings", Partition: 1, Next: 70}},
	} // a delta says which partitions moved on
	if !reflect.DeepEqual(cuts, want) {
		t.Errorf("cuts %v, want %v", cuts, want)
	}
	at := m.Position()
	if digest, err := format.PayloadDigest(m.Contents()); err != nil || digest != firstDeltaPayload ||
		at.PayloadDigest != digest {
		t.Errorf("payload_digest %s (%v), said %s, want %s", digest, err, at.PayloadDigest, firstDeltaPayload)
	}
	if at.Version != 1 || at.Sequence != 2 || at.Digest != firstDeltaDigest {
		t.Errorf("at %+v", at)
	}
	in, err := m.Schema().
		InputFromMap(map[string]any{"user": "u9", "item": "i2", "tags": []any{"new", "old"}, "age": 50.0})
	snapshottest.Must(t, err)
	p, err := m.Predict(&in)
	snapshottest.Must(t, err)
	if fmt.Sprint(p.Outputs) != fmt.Sprint(firstDeltaOutputs) || len(p.Unseen) > 0 {
		t.Errorf("outputs %v, want %v; unseen %q", p.Outputs, firstDeltaOutputs, p.Unseen)
	}
}
