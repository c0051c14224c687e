package experts

import (
	"regexp"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/baselines"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
)

var partName = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)

// TestRowsOfTables: each expert and each baseline has a name that no other part has, a text, and a name that what it
// makes says, too.
func TestRowsOfTables(t *testing.T) {
	seen := map[string]bool{"fold_in": true, "refit": true, "stack": true, "pool": true}
	row := func(name, doc string) {
		t.Helper()
		if !partName.MatchString(name) || seen[name] || doc == "" {
			t.Errorf("%q is no name of a part, is taken or has no text: %q", name, doc)
		}
		seen[name] = true
	}
	for _, k := range Kinds {
		row(k.Name, k.Doc)
		if k.Memory == "" || config.MemoryKey(k.Memory) == "" {
			t.Errorf("%s: no key makes the part %q of memory.parts smaller", k.Name, k.Memory)
		}
	}
	for _, m := range []*config.Model{cycletest.RatingsModel(nil), cycletest.NumericModel(3, 4)} {
		s, err := SettingOf(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range Kinds {
			if k.New == nil || !k.Applies(s) {
				continue
			}
			if b := k.New(s, nil, nil); b.Name != k.Name {
				t.Errorf("%s makes %s", k.Name, b.Name)
			}
			if n := k.Footprint(s); n <= 0 {
				t.Errorf("%s takes %d bytes", k.Name, n)
			}
		}
	}
	for _, k := range baselines.Kinds {
		row(k.Name, k.Doc)
		s, err := SettingOf(cycletest.RatingsModel(nil))
		if err != nil {
			t.Fatal(err)
		}
		if b := k.New(&baselines.Setting{Target: s.Target, Fields: 2, By: 0, Limit: 10}); b.Name() != k.Name {
			t.Errorf("%s makes %s", k.Name, b.Name())
		}
	}
}
