package promql

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// String writes an expression with every operand in brackets.
func (e *Expr) String() string {
	var parts []string
	for _, a := range e.Args {
		parts = append(parts, a.String())
	}
	switch e.Type {
	case Number:
		return fmt.Sprint(e.Value)
	case String:
		return fmt.Sprintf("%q", e.Name)
	case Selector:
		for _, m := range e.Matchers {
			parts = append(parts, fmt.Sprintf("%s%s%q", m.Label, m.Op, m.Value))
		}
		return "{" + strings.Join(parts, ",") + "}" + map[string]string{matrix: "[]"}[e.kind]
	case Binary:
		return "(" + parts[0] + " " + e.Name + " " + parts[1] + ")"
	case Sign:
		return "±" + parts[0]
	case Subquery:
		return parts[0] + "[:]"
	}
	return e.Name + "(" + strings.Join(parts, ", ") + ")"
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"1 + 2 * 3 ^ 2 ^ 2 - 1", "((1 + (2 * (3 ^ (2 ^ 2)))) - 1)"},
		{"-1 ^ 2", "±(1 ^ 2)"},
		{"- -5", "5"},
		{"2 ^ -a * b", `((2 ^ ±{__name__="a"}) * {__name__="b"})`},
		{"1 == bool 2 > bool 3", "((1 == 2) > 3)"},
		{"a or b and c unless d", `({__name__="a"} or (({__name__="b"} and {__name__="c"}) unless {__name__="d"}))`},
		{"a AND ON (job, instance,) b", `({__name__="a"} and {__name__="b"})`},
		{"a / ignoring(x) group_left(y) b", `({__name__="a"} / {__name__="b"})`},
		{"a * on() group_right b", `({__name__="a"} * {__name__="b"})`},
		{"a atan2 b % 2", `(({__name__="a"} atan2 {__name__="b"}) % 2)`},
		{".5 + 1e-3 + 0x1F + 1_000 + 2. + Inf + 5m + 1h30m", "(((((((0.5 + 0.001) + 31) + 1000) + 2) + +Inf) + 300) + 5400)"},
		{`a{b="c", d!="e", f=~"g|h", i!~"j",}`, `{__name__="a",b="c",d!="e",f=~"g|h",i!~"j"}`},
		{`{__name__="a"}`, `{__name__="a"}`},
		{`{"a.b", "c.d"='it\'s "x"\n'}`, `{__name__="a.b",c.d="it's \"x\"\n"}`},
		{"sum by (a) (rate(x[5m]))", `sum(rate({__name__="x"}[]))`},
		{"SUM(x) WITHOUT (a,)", `sum({__name__="x"})`},
		{"topk(3, x)", `topk(3, {__name__="x"})`},
		{"sum", `{__name__="sum"}`},
		{"count_values by (v) (`v`, x)", `count_values("v", {__name__="x"})`},
		{"x offset 5m @ 12.5", `{__name__="x"}`},
		{"rate(x[300] @ end() offset -1h)", `rate({__name__="x"}[])`},
		{"max_over_time(rate(x[5m])[1h:1m] offset 1d)", `max_over_time(rate({__name__="x"}[])[:])`},
		{"min_over_time((a + b)[1h:])", `min_over_time(({__name__="a"} + {__name__="b"})[:])`},
		{"a:b:c > 1 # more than one\n or :d", `(({__name__="a:b:c"} > 1) or {__name__=":d"})`},
		{"histogram_quantile(0.9, sum by (le) (rate(x_bucket[5m])))", `histogram_quantile(0.9, sum(rate({__name__="x_bucket"}[])))`},
		{`label_join(x, "a", "-", "b", "c")`, `label_join({__name__="x"}, "a", "-", "b", "c")`},
		{"hour() + hour(x) - time() + round(x) + round(x, 2) + vector(scalar(x))", `(((((hour() + hour({__name__="x"})) - time()) + round({__name__="x"})) + ` +
			`round({__name__="x"}, 2)) + vector(scalar({__name__="x"})))`},
	} {
		e, err := Parse(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
		} else if e.String() != c.want {
			t.Errorf("%s: %v, want %s", c.text, e, c.want)
		}
	}
}

func TestParseSaysWhereItIsWrong(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "1:1: parse error: the end where an expression is expected"},
		{"a < < 1", "1:5: parse error: < where an expression"},
		{"a +\n  sum(b", "2:8: parse error: the end where ) is"},
		{"a b", "1:3: parse error: b where an operator"},
		{"a $ b", `1:3: parse error: "$ b" is neither`},
		{"5q", "1:1: parse error"},
		{`"open`, "1:1: parse error"},
		{"a{b}", "1:4: parse error: } where =, "},
		{`a{b="\q"}`, `1:5: parse error: "\q" has an escape`},
		{`a{b=~"("}`, "1:1: parse error: error parsing regexp"},
		{`a{b=1}`, "1:5: parse error: 1 where a string"},
		{`{}`, "1:1: parse error: a selector needs"},
		{`{a=~".*"}`, "1:1: parse error: a selector needs"},
		{`a{__name__="b"}`, "1:1: parse error: the metric has two names, a and b"},
		{"rate(a)", "1:6: parse error: rate takes a range vector, not an instant vector"},
		{"rate(a[5m], 1)", "1:1: parse error: rate has 2 arguments, not 1"},
		{"rate(a[5m],)", "1:12: parse error: ) where an expression"},
		{"raet(a[5m])", "1:1: parse error: there is no function raet"},
		{"Rate(a[5m])", "there is no function Rate"},
		{"sum(1)", "1:5: parse error: sum takes an instant vector, not a number"},
		{"topk(a)", "topk has 1 arguments, not 2"},
		{"a[5m] > 1", "on the left of > is an instant vector, not a range vector"},
		{`a + "b"`, "on the right of + is an instant vector, not a string"},
		{"-a[5m]", "1:2: parse error: a sign is before an instant vector, not a range vector"},
		{"1 > 2", "1:3: parse error: numbers are compared with bool"},
		{"a + bool b", "bool belongs to comparisons"},
		{"a and 1", "and is between instant vectors"},
		{"a + on(b) 1", "on and ignoring are between"},
		{"a and on(b) group_left c", "and has no group_left"},
		{"a + on(b) group_left(b) c", "1:5: parse error: label b is both matched and taken over"},
		{"sum by a (b)", "1:8: parse error: a where ( is expected"},
		{"sum by (a:b) (c)", "a:b where a label"},
		{"a[5m:0s]", "1:6: parse error: no time at all"},
		{"a[]", "] where a duration"},
		{"a[5m:1m:1m]", ": where ] is expected"},
		{"a[30s1m]", "1:3: parse error: \"30s1m\" is neither a number nor a duration"},
		{"(a)[5m]", "a range is of a selector"},
		{"a offset 1m [5m]", "a range is of a selector, before offset"},
		{"sum(a)[5m]", "a range is of a selector"},
		{"1[5m:]", "a subquery is of an instant vector, not a number"},
		{"sum(a) offset 5m", "1:8: parse error: offset stands once"},
		{"a offset 1m offset 1m", "1:13: parse error: offset stands once"},
		{"a @ 1 @ 2", "@ stands once"},
		{"a @ start", "the end where ( is"},
		{strings.Repeat("(", 1<<20), "more than 500 levels"},
	} {
		if _, err := Parse(c.text); !errors.Is(err, ErrSyntax) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: %v, want %s", c.text, err, c.want)
		}
	}
}

func TestMatcher(t *testing.T) {
	for _, c := range []struct {
		op, value, of string
		want          bool
	}{
		{"=", "a", "a", true}, {"=", "a", "ab", false}, {"!=", "a", "b", true}, {"!=", "a", "a", false},
		{"=~", "a|b", "b", true}, {"=~", "a", "ab", false}, {"!~", "a.*", "ab", false}, {"!~", "a", "", true},
	} {
		if got := (Matcher{"x", c.op, c.value}).matches(c.of); got != c.want {
			t.Errorf("%s%q matches %q: %t", c.op, c.value, c.of, got)
		}
	}
}
