package ingest

import (
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
)

// TestOutlinesHaveNoValues: an outline has kinds and the names of the schema and the mapping, and nothing of what a
// record says, whatever it is.
func TestOutlinesHaveNoValues(t *testing.T) {
	m := &config.Model{Schema: config.Schema{Label: "rating", Time: "ts", Categorical: []string{"user"},
		Multi: []string{"tags"}}}
	m.Input.Mapping.Fields = []config.MappedField{{Name: "user", Path: "body.who"}}
	o := newOutlines(m)
	for value, want := range map[string]string{
		`{"user":"secret","rating":4.5,"ts":null,"tags":["secret",true]}`: `{"user": <string of 6>, "rating": <number>, ` +
			`"ts": null, "tags": [<string of 6>, <true or false>]}`,
		`{"payload":{"after":{"body":{"who":"secret"}}},"secret":{"secret":1}}`: `{"payload": {"after": {"body": ` +
			`{"who": <string of 6>}}}, <name>: {<name>: <number>}}`,
		`{"user":"secret"`: `{"user": <string of 6>`,
		`secret {`:         `<no JSON from byte 0 of 8>`,
		`[1] secret`:       `[<number>] <no JSON from byte 3 of 10>`,
		"\x00\x01secret":   `<no JSON from byte 0 of 8>`,
		`"secret"`:         `<string of 6>`,
		``:                 ``,
		`[]`:               `[]`,
	} {
		if got := o.of([]byte(value)); got != want {
			t.Errorf("%q: %s\nwant %s", value, got, want)
		}
	}
	long := o.of([]byte(`[` + strings.Repeat(`"secret",`, 10_000) + `1]`))
	if len(long) > maxOutline+50 || !strings.HasSuffix(long, " …") || strings.Contains(long, "secret") {
		t.Errorf("%d bytes: %s", len(long), long)
	}
}

// FuzzOutlines: no outline has a text of 8 bytes or more of a string that is no name of the schema.
func FuzzOutlines(f *testing.F) {
	f.Add([]byte(`{"user":"abcdefghijkl"}`), "abcdefghijkl")
	o := newOutlines(&config.Model{Schema: config.Schema{Label: "rating", Categorical: []string{"user"}}})
	f.Fuzz(func(t *testing.T, value []byte, secret string) {
		if got := o.of(value); len(got) > maxOutline+2*maxKnownName {
			t.Errorf("%d bytes", len(got))
		}
		if len(secret) < 8 || strings.ContainsAny(secret, "\"\\<>[]{},:… \n") {
			return
		}
		got := o.of([]byte(`{"user":"` + secret + `","` + secret + `":["` + secret + `"]}`))
		if strings.Contains(got, secret) {
			t.Errorf("%q is in %s", secret, got)
		}
	})
}
