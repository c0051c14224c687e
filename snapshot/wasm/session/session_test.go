package session

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/answer"
	"github.com/refitd/refitd/snapshot/verify"
)

const store = "../../testdata/v1"

// asked calls an operation as a host does.
func asked(t *testing.T, s *Session, op string, ask any, parts ...[]byte) (answer json.RawMessage, refusal *Refusal) {
	t.Helper()
	text, err := json.Marshal(ask)
	if err != nil {
		t.Fatal(err)
	}
	r, rest := Request{Operation: op, Ask: text}, []byte(nil)
	for _, p := range parts {
		r.Parts, rest = append(r.Parts, len(p)), append(rest, p...)
	}
	header, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return called(t, s, header, rest)
}

func called(t *testing.T, s *Session, header, rest []byte) (answer json.RawMessage, refusal *Refusal) {
	t.Helper()
	var out struct {
		Answer json.RawMessage
		Error  *Refusal
	}
	if err := json.Unmarshal(s.Call(header, rest), &out); err != nil {
		t.Fatal(err)
	}
	return out.Answer, out.Error
}

// loaded loads the version in testdata with its files, but for one.
func loaded(t *testing.T, s *Session, without string) (description, *Refusal) {
	t.Helper()
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(store, "ratings", "1", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	manifest := read("manifest.json")
	list, refusal := asked(t, s, "files", map[string]any{"model": "ratings"}, manifest)
	if refusal != nil {
		t.Fatal(refusal)
	}
	var wanted []format.File
	if err := json.Unmarshal(list, &wanted); err != nil || len(wanted) != 3 {
		t.Fatalf("%d files, %v", len(wanted), err)
	}
	names, parts := []string{"manifest.json"}, [][]byte{manifest}
	for _, f := range wanted {
		if f.Name != without {
			names, parts = append(names, f.Name), append(parts, read(f.Name))
		}
	}
	ask := map[string]any{"model": "ratings", "pointer": map[string]any{"version": 1}, "names": names,
		"allow_expired": true}
	answer, refusal := asked(t, s, "load", ask, parts...)
	var d description
	if refusal == nil {
		if err := json.Unmarshal(answer, &d); err != nil {
			t.Fatal(err)
		}
	}
	return d, refusal
}

// A session answers what the library answers. TestNodeIsTheLibrary compares every kind of version.
func TestSessionIsTheLibrary(t *testing.T) {
	s := New()
	d, refusal := loaded(t, s, "")
	if refusal != nil {
		t.Fatal(refusal)
	}
	m, err := (verify.Trust{AllowExpired: true}).Open(store, "ratings", verify.Selector{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	event := map[string]any{"user": "u1", "item": "i2", "age": 34.5, "tags": []any{"new"}}
	in, err := m.Schema().InputFromMap(event)
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Predict(&in)
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal([]answer.Answer{p.Answer()})
	if err != nil {
		t.Fatal(err)
	}
	got, refusal := asked(t, s, "predict", map[string]any{"handle": d.Handle, "events": []any{event}})
	if refusal != nil || string(got) != string(want) {
		t.Errorf("%s, %v; want %s", got, refusal, want)
	}
	top := map[string]any{"handle": d.Handle, "event": map[string]any{"user": 7, "age": 3}, "over": "item",
		"k": 9, "exclude": []any{"i1"}}
	got, refusal = asked(t, s, "topk", top)
	var items []topItem
	if err := json.Unmarshal(got, &items); refusal != nil || err != nil || len(items) == 0 || items[0].Name == "i1" {
		t.Errorf("%s, %v, %v", got, refusal, err)
	}
	if _, refusal := asked(t, s, "close", map[string]any{"handle": d.Handle}); refusal != nil {
		t.Error(refusal)
	}
	if _, refusal := asked(t, s, "topk", top); refusal == nil || refusal.Name != "InputError" {
		t.Errorf("a closed version: %v", refusal)
	}
}

// Whatever the host sends is answered: nothing crashes the module, as that would end all versions in it.
func TestBadRequests(t *testing.T) {
	s := New()
	d, refusal := loaded(t, s, "")
	if refusal != nil {
		t.Fatal(refusal)
	}
	if _, refusal := loaded(t, New(), "vocabulary"); refusal == nil || refusal.Name != "NotFoundError" {
		t.Errorf("a file is missing: %v", refusal)
	}
	for name, c := range map[string]struct {
		header, want string
	}{
		"no JSON":           {`{`, "InputError"},
		"nothing":           {``, "InputError"},
		"no operation":      {`{"op":"train","ask":{}}`, "InputError"},
		"a part too long":   {`{"op":"files","ask":{"model":"m"},"parts":[7]}`, "InputError"},
		"a negative part":   {`{"op":"files","ask":{"model":"m"},"parts":[-1]}`, "InputError"},
		"no manifest":       {`{"op":"files","ask":{"model":"m"}}`, "NotFoundError"},
		"a bad model":       {`{"op":"files","ask":{"model":"../m"},"parts":[0]}`, "BadNameError"},
		"a bad key":         {`{"op":"files","ask":{"model":"m","keys":["x"]},"parts":[0]}`, "BadKeyError"},
		"no alias":          {`{"op":"alias","ask":{"model":"m","alias":"champion"}}`, "NotFoundError"},
		"a bad alias":       {`{"op":"alias","ask":{"model":"m","alias":"/"},"parts":[0]}`, "BadNameError"},
		"files without one": {`{"op":"load","ask":{"model":"m","names":["manifest.json"]}}`, "InputError"},
		"a text for events": {`{"op":"predict","ask":{"handle":1,"events":"x"}}`, "InputError"},
		"k of none":         {`{"op":"topk","ask":{"handle":1,"event":{"user":"u1"},"over":"item"}}`, "InputError"},
		"excluding a text": {`{"op":"topk","ask":{"handle":1,"event":{"user":"u1","age":1,"tags":[]},"over":"item","k":1,` +
			`"exclude":"i1"}}`, "InputError"},
		"over no field": {`{"op":"topk","ask":{"handle":1,"event":{},"over":"nothing","k":1}}`, "InputError"},
		"too much held": {`{"op":"fold","ask":{"handle":1,"history":[],"held":1}}`, "InputError"},
		"no fold-in":    {`{"op":"fold","ask":{"handle":1,"history":[{"user":"u1","age":1,"rating":2}]}}`, "NoFoldInError"},
	} {
		if _, refusal := called(t, s, []byte(c.header), nil); refusal == nil || refusal.Name != c.want {
			t.Errorf("%s: %+v, want %s", name, refusal, c.want)
		}
	}
	answer, refusal := asked(t, s, "apply", map[string]any{"model": "ratings", "handle": d.Handle, "first": 1},
		[]byte("these are no frames of deltas, whatever they are"))
	var a applied
	if err := json.Unmarshal(answer, &a); refusal != nil || err != nil || a.Refused == nil || a.Handle != 0 {
		t.Errorf("no frames: %s, %v, %v", answer, refusal, err)
	}
	if got := len(s.open); got != 1 {
		t.Errorf("%d versions are open", got)
	}
}
