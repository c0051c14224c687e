// Package promql reads expressions of PromQL into a tree and checks the kinds of values in it. It knows the functions of Prometheus 3 that
// need no feature flag, and evaluates nothing.
package promql

import (
	"regexp"
	"strings"
)

// Type is what stands at a node.
type Type int

// The types of nodes. A selector with a range is a selector; signs before a number belong to it.
const (
	Number Type = iota + 1
	String
	Selector
	Call
	Aggregation
	Sign
	Binary
	Subquery
)

// Expr is a node of an expression.
type Expr struct {
	Type     Type
	Pos      int    // byte of the text
	Name     string // of a function, aggregation, operator or metric
	Value    float64
	Matchers []Matcher
	Args     []*Expr // operands as well
	kind     string
	sealed   string // the modifiers that it has, all of them for an expression in parentheses
}

// The kinds of values, as signatures have them.
const (
	scalar  = "s"
	literal = "t"
	vector  = "v"
	matrix  = "r"
)

var kindNames = map[string]string{scalar: "a number", literal: "a string", vector: "an instant vector", matrix: "a range vector"}

// Matcher is one condition of a selector; the name of the metric is one on the label __name__.
type Matcher struct{ Label, Op, Value string }

// matches reports whether a series with this value of the label, empty for none, meets the condition.
func (m Matcher) matches(value string) bool {
	if m.Op == "=" || m.Op == "!=" {
		return (value == m.Value) == (m.Op == "=")
	}
	return regexp.MustCompile("^(?s:"+m.Value+")$").MatchString(value) == (m.Op == "=~")
}

// Compares reports whether a node is a comparison.
func (e *Expr) Compares() bool { return e.Type == Binary && levels[e.Name] == comparison }

// Walk calls visit with each node and those above it, the outermost first.
func (e *Expr) Walk(visit func(e *Expr, above []*Expr), above ...*Expr) {
	visit(e, above)
	for _, a := range e.Args {
		a.Walk(visit, append(above, e)...)
	}
}

// levels are the operators by how strongly they bind.
var levels = map[string]int{"or": 1, "and": 2, "unless": 2, "==": comparison, "!=": comparison, "<": comparison, "<=": comparison, ">": comparison,
	">=": comparison, "+": 4, "-": 4, "*": 5, "/": 5, "%": 5, "atan2": 5, "^": power}

const (
	comparison = 3
	power      = 6
)

// signatures reads lines of what is returned and taken, with "?" before what may be left out, and the names it is so for.
func signatures(lines string) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		for _, name := range words[1:] {
			all[name] = words[0]
		}
	}
	return all
}

var aggregations = signatures(`vv sum avg min max group stddev stdvar count
	vtv count_values
	vsv topk bottomk quantile`)

var functions = signatures(`vv abs absent acos acosh asin asinh atan atanh ceil cos cosh deg exp floor ln log10 log2 rad sgn sin sinh
	vv sort sort_desc sqrt tan tanh
	vv timestamp histogram_avg histogram_count histogram_stddev histogram_stdvar histogram_sum
	v?v day_of_month day_of_week day_of_year days_in_month hour minute month year
	vr changes delta deriv idelta increase irate rate resets absent_over_time avg_over_time count_over_time first_over_time last_over_time max_over_time
	vr min_over_time present_over_time stddev_over_time stdvar_over_time sum_over_time
	vsr quantile_over_time
	vrs predict_linear
	vsv histogram_quantile
	vssv histogram_fraction
	vvss clamp
	vvs clamp_max clamp_min
	vv?s round
	vvtttt label_replace
	vvtt?tttttttt label_join
	vs vector
	sv scalar
	s pi time`)
