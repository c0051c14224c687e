package request

import (
	"bytes"
	"encoding/json"
	"errors"
)

// Name is a name in a request, of a field or a class: a string, or a whole number, which means its decimal text, as in
// events.
type Name string

var errNoName = errors.New("a name is a string or a whole number")

// UnmarshalJSON reads either of them.
func (n *Name) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, (*string)(n))
	}
	whole, ok := WholeName(text)
	if !ok {
		return errNoName
	}
	*n = Name(whole)
	return nil
}

// WholeName returns the name that a JSON number means, if it is a whole one written without point and exponent.
func WholeName(number []byte) (string, bool) {
	switch {
	case len(number) == 0 || number[0] != '-' && (number[0] < '0' || number[0] > '9') || bytes.ContainsAny(number, ".eE"):
		return "", false
	case string(number) == "-0":
		return "0", true
	}
	return string(number), true
}
