package snapshot

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/verify"
)

// TestOptionalIsPublished: the manifest says which fields are optional, also that none is; golden events may lack the
// optional ones. The payload's digest is what it was before there was a choice: readers of before compute it, and
// versions of before are reproduced.
func TestOptionalIsPublished(t *testing.T) {
	plain := snapshottest.Strict(t, nil)
	user, item := plain.Schema.Categorical[0], plain.Schema.Categorical[1]
	numbers := make([]float64, len(plain.Schema.Numeric))
	lists := make([][]string, len(plain.Schema.Multi))
	digests := map[string]string{}
	for name, optional := range map[string][]string{"before": nil, "none": {}, "some": {item}} {
		dir, c := t.TempDir(), snapshottest.Strict(t, optional)
		c.Golden = []format.Golden{{Input: format.Input{Categorical: []string{"u1", "i1"}, Numeric: numbers, Multi: lists}}}
		if len(optional) > 0 {
			c.Golden = append(c.Golden,
				format.Golden{Input: format.Input{Categorical: []string{"u1", ""}, Numeric: numbers, Multi: lists}})
		}
		manifest, err := publish.NewStore(dir).Publish(t.Context(), "m", c)
		if err != nil {
			t.Fatal(name, err)
		}
		m, err := Open(dir, "m", verify.Selector{Version: 1})
		if err != nil {
			t.Fatal(name, err)
		}
		if !reflect.DeepEqual(m.Schema().Optional, optional) {
			t.Errorf("%s: optional %q came back as %q", name, optional, m.Schema().Optional)
		}
		b, err := os.ReadFile(filepath.Join(dir, "m", "1", "manifest.json"))
		if err != nil {
			t.Fatal(err)
		}
		if has := bytes.Contains(b, []byte(`"optional"`)); has != (optional != nil) {
			t.Errorf("%s: the manifest speaks of optional fields: %t", name, has)
		}
		digests[name] = manifest.PayloadDigest
	}
	if digests["before"] != digests["none"] || digests["some"] != digests["none"] {
		t.Errorf("digests %v", digests)
	}
	c := snapshottest.Strict(t, []string{item})
	c.Golden = []format.Golden{{Input: format.Input{Categorical: []string{"", "i1"}, Numeric: numbers, Multi: lists}}}
	_, err := publish.NewStore(t.TempDir()).Publish(t.Context(), "m", c)
	snapshottest.Refused(t, user, err)
}
