package event

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A Condition compares the values of a record with constants. Numbers are compared by size, text byte by byte; values
// of different types are not equal, and neither is less. What is absent, or null, is equal to null alone.
type Condition struct {
	text string
	of   Source
	op   string
	with []any // string, float64, bool or nil; more than one for in
}

// operators, longer ones before their beginnings.
var operators = []string{"==", "!=", "<=", ">=", "<", ">", "in"}

// ParseCondition reads a condition such as type == "rating", amount >= 10, header:tenant != "test", deleted == null or
// op in ["c", "u"]. What is compared is a place, as in ParseSource, the constant is JSON.
func ParseCondition(text string) (Condition, error) {
	c := Condition{text: text}
	fail := func(what string) (Condition, error) {
		return c, fmt.Errorf("%s in %q: write a place, one of %s, and a constant, such as type == \"rating\"", what,
			text, strings.Join(operators, " "))
	}
	of, rest, err := cutSource(strings.TrimSpace(text))
	if err != nil {
		return fail(err.Error())
	}
	c.of, rest = of, strings.TrimSpace(rest)
	i := slices.IndexFunc(operators, func(op string) bool { return strings.HasPrefix(rest, op) })
	if i < 0 {
		return fail("no operator")
	}
	c.op = operators[i]
	var constant any
	if err := json.Unmarshal([]byte(strings.TrimPrefix(rest, c.op)), &constant); err != nil {
		return fail("no constant")
	}
	list, isList := constant.([]any)
	if isList != (c.op == "in") {
		return fail("a list is for in, and in for a list")
	}
	if c.with = list; !isList {
		c.with = []any{constant}
	}
	for _, with := range c.with {
		switch with.(type) {
		case string, float64:
			continue
		case bool, nil:
			if !strings.ContainsAny(c.op, "<>") {
				continue
			}
		}
		return fail("the wrong type of constant")
	}
	return c, nil
}

// holds reports whether the condition holds for a value.
func (c *Condition) holds(v *Value) bool {
	for _, with := range c.with {
		order, comparable := compareWith(v, with)
		switch c.op {
		case "==", "in":
			if comparable && order == 0 {
				return true
			}
		case "!=":
			return !comparable || order != 0
		case "<":
			return comparable && order < 0
		case "<=":
			return comparable && order <= 0
		case ">":
			return comparable && order > 0
		case ">=":
			return comparable && order >= 0
		}
	}
	return false
}

// compareWith compares a value with a constant. Plain text that is a number is compared with numbers.
func compareWith(v *Value, with any) (order int, comparable bool) {
	switch with := with.(type) {
	case nil:
		return 0, v.isNone()
	case bool:
		return 0, v.kind == 't' && with || v.kind == 'f' && !with
	case string:
		if v.kind != '"' {
			return 0, false
		}
		text := v.raw
		if v.form == formJSON {
			text, _ = jsontext.AppendUnquote(nil, text) // it was read as JSON
		}
		return compareText(text, with), true
	case float64:
		number := *v
		number.numeric()
		if number.kind == '0' {
			x := number.number()
			return cmp.Compare(x, with), !math.IsNaN(x) && !math.IsInf(x, 0)
		}
	}
	return 0, false
}

// compareText is strings.Compare of bytes and a string, without a copy.
func compareText(a []byte, b string) int {
	switch {
	case string(a) < b:
		return -1
	case string(a) == b:
		return 0
	}
	return 1
}
