package dataset

import (
	"bytes"
	"regexp"

	"github.com/refitd/refitd/consumer/event"
)

// noJSON are the ways in which lines are almost JSON, by what a line has, and what each is.
var noJSON = []struct {
	has  *regexp.Regexp
	what string
}{
	{regexp.MustCompile(`^\s*(//|#)`), "a comment"},
	{regexp.MustCompile(`^\s*\{\s*'`), "quotes of Python: json.dumps writes JSON"},
	{regexp.MustCompile(`[:,\[]\s*-?(NaN|Infinity)\s*[,}\]]`), "NaN or Infinity, which JSON has not: null is no value"},
	{regexp.MustCompile(`[:,\[]\s*(None|True|False)\s*[,}\]]`), "None, True or False of Python: json.dumps writes JSON"},
	{regexp.MustCompile(`\}\s*,\s*$`), "a comma behind the object"},
	{regexp.MustCompile(`,\s*\}`), "a comma before a brace"},
	{regexp.MustCompile(`\}\s*\{`), "several objects, of which jq -c . writes each as a line"},
	{regexp.MustCompile(`^\s*\{[^}]*$`), "an object that does not end in its line, as jq -c . writes it"},
}

// jsonText matches text in JSON, which may have anything in it.
var jsonText = regexp.MustCompile(`"(\\.|[^"\\])*"`)

// maxFaultBytes is how much of a line is looked at.
const maxFaultBytes = 64 << 10

// explain returns why a line is no JSON, with what it has instead where that can be seen.
func explain(r *event.Rejection, line []byte) *event.Rejection {
	if r.Reason != event.NotJSON && r.Reason != event.TrailingData || len(line) > maxFaultBytes {
		return r
	}
	line = jsonText.ReplaceAllLiteral(bytes.TrimSpace(line), []byte(`""`))
	for i := range noJSON {
		if noJSON[i].has.Match(line) {
			return &event.Rejection{Reason: r.Reason, Field: r.Field, Expected: r.Expected, Got: noJSON[i].what}
		}
	}
	return r
}
