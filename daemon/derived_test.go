package daemon_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/evaluate"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
)

// derivedFields makes a model with derived fields of a configuration of package daemontest.
var derivedFields = []string{
	"categorical: [user, item]",
	"categorical: [user, item], derived: [{name: before, kind: previous_label, of: user}, " +
		"{name: hour, kind: time_bin, unit: hour}, {name: seen, kind: last, of: user, field: item, k: 3}]",
}

// TestDerivedFields: a version says what its derived fields are. Over HTTP an event that lacks them has them from what
// the daemon has read, also after a restart; in refitd score and in the library it lacks them, and with them it has the
// same score everywhere.
func TestDerivedFields(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	r := rand.New(rand.NewPCG(5, 5))
	const start, hour = 1_700_000_000_000, 3_600_000
	before := map[string]int{}
	var values [][]byte
	for i := range 1500 {
		user, label := fmt.Sprintf("u%d", r.IntN(30)), 1+r.IntN(5)
		if last := before[user]; last > 0 && r.IntN(3) > 0 {
			label = last // so that there is something to learn from
		}
		before[user] = label
		values = append(values,
			fmt.Appendf(nil, `{"user":%q,"item":"i%d","rating":%d,"ts":%d}`, user, r.IntN(20), label, start+i*1000))
	}
	b.Produce(values...)
	path := b.Configure("derived", append(slices.Clone(derivedFields), daemontest.Simple...)...)
	if o := b.Run(path); o.Err != nil || daemontest.Balanced(t, o.State(t)) != 1500 {
		t.Fatalf("%+v, %v", o.Summary, o.Err)
	}
	d, stop := b.Start(path) // what it knows is of its state alone: there is nothing more to read
	defer stop()
	store := filepath.Join(b.Dir, "store-derived")
	version, err := snapshot.Open(store, "ratings", snapshot.Selector{Alias: pointer.Champion})
	if err != nil {
		t.Fatal(err)
	}
	want := []format.Derived{{Name: "before", Kind: "previous_label", Of: "user"},
		{
			Name:     "hour",
			Kind:     "time_bin",
			Unit:     "hour",
			Time:     "ts",
			TimeUnit: "ms",
		}, {Name: "seen", Kind: "last", Of: "user", Field: "item", K: 3}}
	if s := version.Schema(); !slices.Equal(s.Derived, want) ||
		!slices.Equal(s.Optional, []string{"before", "hour", "seen"}) {
		t.Errorf("%+v", s)
	}
	type answer struct {
		Outputs []float64
		Absent  []string
		Items   []struct{ Name string }
		Terms   []struct{ Features []string }
	}
	post := func(verb, body string) (out struct {
		answer
		Predictions []answer
	}) {
		t.Helper()
		response, err := http.Post("http://"+d.Addr()+"/v1/models/ratings/"+verb, "application/json",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || json.Unmarshal(text, &out) != nil {
			t.Fatalf("%s: %s, %v", body, text, err)
		}
		return out
	}
	score := func(event string) answer { return post("score", `{"events":[`+event+`]}`).Predictions[0] }
	bare := fmt.Sprintf(`{"user":"u3","item":"i1","seen":["i1"],"ts":%d}`, start+5*hour)
	whole := fmt.Sprintf(`{"user":"u3","item":"i1","seen":["i1"],"before":"%d","hour":%d}`, before["u3"],
		(start/hour+5)%24)
	filled, given := score(bare), score(whole)
	if !slices.Equal(filled.Outputs, given.Outputs) || len(filled.Absent) > 0 {
		t.Errorf("filled %+v, given %+v", filled, given)
	}
	if other := score(strings.Replace(whole, `"before":"`, `"before":"no `, 1)); slices.Equal(other.Outputs,
		given.Outputs) {
		t.Error("the previous label says nothing: nothing is tested")
	}
	if a := score(`{"user":"u3","item":"i1"}`); len(a.Absent) > 0 { // now
		t.Errorf("without a time: %+v", a)
	}
	if a := score(`{"user":"nobody","item":"i1"}`); !slices.Equal(a.Absent, []string{"before", "seen"}) {
		t.Errorf("an unknown user: %+v", a)
	}
	features := fmt.Sprint(post("explain", `{"event":`+bare+`}`).Terms)
	if name := fmt.Sprintf("before=%d", before["u3"]); !strings.Contains(features, name) {
		t.Errorf("explained by %s, want %s", features, name)
	}
	if a, b := post("topk", `{"event":`+bare+`,"over":"item"}`), post("topk", `{"event":`+whole+
		`,"over":"item"}`); fmt.Sprint(a.Items) != fmt.Sprint(b.Items) ||
		len(a.Items) == 0 {
		t.Errorf("top list %v, given %v", a.Items, b.Items)
	}
	body := fmt.Sprintf(
		`{"inputs":[{"name":"user","shape":[1],"datatype":"BYTES","data":["u3"]},{"name":"item","shape":[1],"datatype":"BYTES","data":["i1"]},`+
			`{"name":"hour","shape":[1],"datatype":"BYTES","data":["%d"]},{"name":"seen","shape":[1,1],"datatype":"BYTES","data":["i1"]}],`+
			`"outputs":[{"name":"outputs"}]}`,
		(start/hour+5)%24,
	)
	response, err := http.Post("http://"+d.Addr()+"/v2/models/ratings/infer", "application/json",
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var inferred struct{ Outputs []struct{ Data []float64 } }
	err = json.NewDecoder(response.Body).Decode(&inferred)
	if err != nil || len(inferred.Outputs) != 1 || !slices.Equal(inferred.Outputs[0].Data, given.Outputs) {
		t.Errorf("inferred %+v, given %+v: %v", inferred, given, err)
	}
	var out bytes.Buffer
	ref := offline.SnapshotRef{Versions: offline.Versions{Store: store, Model: "ratings"}, Alias: pointer.Champion}
	if err := evaluate.Score(t.Context(), ref, evaluate.ScoreOptions{}, strings.NewReader(whole+"\n"+bare),
		report.NewEmitter(&out, true)); err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(&out)
	var scored [2]answer
	for i := range scored {
		if err := lines.Decode(&scored[i]); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(scored[0].Outputs, given.Outputs) || !slices.Equal(scored[1].Absent, []string{"before", "hour"}) {
		t.Errorf("refitd score: %+v", scored)
	}
}
