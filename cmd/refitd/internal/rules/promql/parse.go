package promql

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
)

// ErrSyntax is wrapped by every error of Parse.
var ErrSyntax = errors.New("parse error")

// maxDepth bounds how deep expressions nest, which come from files of others.
const maxDepth = 500

// lexemes has a group for each kind of token, in their order, after the blanks. A colon begins a name only before a letter: not in [1h:5m].
var lexemes = regexp.MustCompile(`^(?:([a-zA-Z_][a-zA-Z0-9_:]*|:[a-zA-Z_:][a-zA-Z0-9_:]*)|` +
	`((?:[0-9]+(?:ms|[smhdwy]))+|0[xX][0-9a-fA-F]+|(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?:[^a-zA-Z0-9_.]|$)|` +
	"(\"(?:[^\"\\\\\\n]|\\\\.)*\"|'(?:[^'\\\\\\n]|\\\\.)*'|`[^`]*`)|" +
	`(=~|!~|==|!=|<=|>=|[-+*/%^=<>(){}\[\],:@]))`)

var blanks = regexp.MustCompile(`^(?:\s|#[^\n]*)*`)

// The kinds of tokens. A number may be a duration.
const (
	end = iota
	name
	number
	text
	operator
)

type token struct {
	kind int
	text string // as it is written
	pos  int
}

type parser struct {
	text  string
	token token
	depth int
	err   error // the first; after it there are no more tokens
}

// Parse returns the expression that a text holds. An error begins with the line and column of what is wrong.
func Parse(text string) (*Expr, error) {
	p := &parser{text: text}
	p.next()
	e := p.binary(1)
	if p.token.kind != end {
		p.unexpected("an operator or the end")
	}
	return e, p.err
}

// next reads a token, and returns the one before it.
func (p *parser) next() token {
	last := p.token
	at := last.pos + len(last.text)
	at += len(blanks.FindString(p.text[at:]))
	p.token = token{end, "", at}
	for kind, part := range lexemes.FindStringSubmatch(p.text[at:]) {
		if kind > 0 && part != "" {
			p.token = token{kind, part, at}
		}
	}
	if p.token.kind == end && at < len(p.text) {
		p.fail(at, "%.20q is neither a name, a number, a string nor an operator", p.text[at:])
	}
	return last
}

// fail keeps the first error and ends the text.
func (p *parser) fail(pos int, format string, values ...any) {
	if p.err == nil {
		before := p.text[:pos]
		line, column := 1+strings.Count(before, "\n"), pos-strings.LastIndexByte(before, '\n')
		p.err = fmt.Errorf("%d:%d: %w: %s", line, column, ErrSyntax, fmt.Sprintf(format, values...))
	}
	p.token = token{end, "", len(p.text)}
}

func (p *parser) unexpected(want string) {
	found := p.token.text
	if p.token.kind == end {
		found = "the end"
	}
	p.fail(p.token.pos, "%s where %s is expected", found, want)
}

// is reports whether the token is one of some operators and keywords, which may be in capitals.
func (p *parser) is(words ...string) bool {
	return (p.token.kind == operator || p.token.kind == name) && slices.Contains(words, strings.ToLower(p.token.text))
}

func (p *parser) accept(words ...string) bool {
	is := p.is(words...)
	if is {
		p.next()
	}
	return is
}

func (p *parser) expect(word string) {
	if !p.accept(word) {
		p.unexpected(word)
	}
}

// want fails unless the value of an expression is of one of the kinds.
func (p *parser) want(e *Expr, what, kinds string) {
	if !strings.Contains(kinds, e.kind) {
		p.fail(e.Pos, "%s %s, not %s", what, kindNames[kinds[:1]], kindNames[e.kind])
	}
}

// list reads items between brackets. A comma may stand after the last label or matcher, not after the last argument.
func (p *parser) list(open, shut string, lastComma bool, item func()) {
	p.expect(open)
	for first := true; p.err == nil && !((first || lastComma) && p.accept(shut)); first = false {
		if item(); !p.accept(",") {
			p.expect(shut)
			return
		}
	}
}

// binary reads operators of a level and above with their operands.
func (p *parser) binary(level int) *Expr {
	if p.depth++; p.depth > maxDepth {
		p.fail(p.token.pos, "more than %d levels", maxDepth)
	}
	defer func() { p.depth-- }()
	left := p.unary()
	for {
		e := &Expr{Type: Binary, kind: vector, Name: strings.ToLower(p.token.text), Pos: p.token.pos}
		found := levels[e.Name]
		if found < level || !p.accept(e.Name) {
			return left
		}
		isBool, on, group := p.modifiers()
		right := p.binary(min(found+1, power)) // 2^3^2 is 2^(3^2)
		e.Args = []*Expr{left, right}
		p.want(left, "on the left of "+e.Name+" is", vector+scalar)
		p.want(right, "on the right of "+e.Name+" is", vector+scalar)
		kinds := left.kind + right.kind
		if kinds == scalar+scalar {
			e.kind = scalar
		}
		switch {
		case found < comparison && kinds != vector+vector:
			p.fail(e.Pos, "%s is between instant vectors", e.Name)
		case found == comparison && e.kind == scalar && !isBool:
			p.fail(e.Pos, "numbers are compared with bool")
		case isBool && found != comparison:
			p.fail(e.Pos, "bool belongs to comparisons")
		case on && kinds != vector+vector:
			p.fail(e.Pos, "on and ignoring are between instant vectors")
		case group && found < comparison:
			p.fail(e.Pos, "%s has no group_left or group_right", e.Name)
		}
		left = e
	}
}

// modifiers reads what stands between an operator and its right operand.
func (p *parser) modifiers() (isBool, on, group bool) {
	isBool = p.accept("bool")
	matching := p.token
	if on = p.accept("on", "ignoring"); !on {
		return
	}
	labels := p.labels()
	if group = p.accept("group_left", "group_right"); group && p.is("(") {
		for _, l := range p.labels() {
			if strings.EqualFold(matching.text, "on") && slices.Contains(labels, l) {
				p.fail(matching.pos, "label %s is both matched and taken over", l)
			}
		}
	}
	return
}

func (p *parser) labels() (labels []string) {
	p.list("(", ")", true, func() { labels = append(labels, p.label()) })
	return
}

func (p *parser) label() string {
	if p.token.kind == text {
		return p.quoted()
	}
	if p.token.kind != name || strings.Contains(p.token.text, ":") {
		p.unexpected("a label")
	}
	return p.next().text
}

// quoted reads a string literal.
func (p *parser) quoted() string {
	if p.token.kind != text {
		p.unexpected("a string")
		return ""
	}
	t := p.next()
	raw := t.text
	if raw[0] == '\'' { // Go's strings are like it in all but the quotes
		raw = `"` + strings.NewReplacer(`\'`, `'`, `\\`, `\\`, `"`, `\"`).Replace(raw[1:len(raw)-1]) + `"`
	}
	s, err := strconv.Unquote(raw)
	if err != nil {
		p.fail(t.pos, "%s has an escape that is none", t.text)
	}
	return s
}

// number reads a number, or a duration in seconds.
func (p *parser) number() float64 {
	t := p.next()
	if n, err := strconv.ParseInt(t.text, 0, 64); err == nil {
		return float64(n)
	}
	if d, err := model.ParseDuration(t.text); err == nil {
		return float64(d) / 1e9
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(t.text, "_", ""), 64)
	if err != nil {
		p.fail(t.pos, "%q is neither a number nor a duration such as 1h30m", t.text)
	}
	return v
}

// unary reads an operand with the sign before it and the modifiers after it.
func (p *parser) unary() *Expr {
	if !p.is("-", "+") {
		return p.modified(p.primary())
	}
	sign := p.next()
	of := p.binary(power)
	p.want(of, "a sign is before", vector+scalar)
	if of.Type == Number {
		if sign.text == "-" {
			of.Value = -of.Value
		}
		return of
	}
	return &Expr{Type: Sign, kind: of.kind, Pos: sign.pos, Args: []*Expr{of}}
}

func (p *parser) primary() *Expr {
	e := &Expr{Pos: p.token.pos}
	isName, lower := p.token.kind == name, strings.ToLower(p.token.text)
	switch {
	case p.token.kind == number || p.is("inf", "nan"):
		e.Type, e.kind, e.Value = Number, scalar, p.number()
		return e
	case p.token.kind == text:
		e.Type, e.kind, e.Name = String, literal, p.quoted()
		return e
	case p.accept("("):
		e = p.binary(1)
		e.sealed = "offset @"
		p.expect(")")
		return e
	case isName:
		e.Name = p.next().text
	case !p.is("{"):
		p.unexpected("an expression")
		return e
	}
	switch _, aggregates := aggregations[lower]; {
	case isName && aggregates && p.is("(", "by", "without"):
		e.Type, e.Name = Aggregation, lower
		grouped := p.grouped()
		p.arguments(e, aggregations[lower])
		if !grouped {
			p.grouped()
		}
	case isName && p.is("("):
		if functions[e.Name] == "" {
			p.fail(e.Pos, "there is no function %s", e.Name)
			return e
		}
		e.Type = Call
		p.arguments(e, functions[e.Name])
	default:
		p.selector(e)
	}
	return e
}

func (p *parser) grouped() bool {
	grouped := p.accept("by", "without")
	if grouped {
		p.labels()
	}
	return grouped
}

func (p *parser) arguments(e *Expr, signature string) {
	e.kind = signature[:1]
	least, more, _ := strings.Cut(signature[1:], "?")
	p.list("(", ")", false, func() { e.Args = append(e.Args, p.binary(1)) })
	if n := len(e.Args); n < len(least) || n > len(least+more) {
		p.fail(e.Pos, "%s has %d arguments, not %d", e.Name, n, len(least))
		return
	}
	for i, a := range e.Args {
		p.want(a, e.Name+" takes", (least + more)[i:i+1])
	}
}

// selector reads the matchers of a selector, whose name is set if it stands before them.
func (p *parser) selector(e *Expr) {
	e.Type, e.kind = Selector, vector
	named := e.Name != ""
	add := func(label, op, value string) {
		if _, err := regexp.Compile(value); strings.HasSuffix(op, "~") && err != nil {
			p.fail(e.Pos, "%v", err)
			return
		}
		if label == model.MetricNameLabel && op == "=" {
			if named && len(e.Matchers) > 0 {
				p.fail(e.Pos, "the metric has two names, %s and %s", e.Name, value)
			}
			e.Name = value
		}
		e.Matchers = append(e.Matchers, Matcher{label, op, value})
	}
	if named {
		add(model.MetricNameLabel, "=", e.Name)
	}
	if p.is("{") {
		p.list("{", "}", true, func() {
			isText := p.token.kind == text
			label := p.label()
			op := p.token.text
			switch {
			case p.accept("=", "!=", "=~", "!~"):
				add(label, op, p.quoted())
			case isText:
				add(model.MetricNameLabel, "=", label)
			default:
				p.unexpected("=, !=, =~ or !~")
			}
		})
	}
	if p.err == nil && !slices.ContainsFunc(e.Matchers, func(m Matcher) bool { return !m.matches("") }) {
		p.fail(e.Pos, "a selector needs a condition that series without the label do not meet")
	}
}

// modified reads ranges, offsets and @ after an expression.
func (p *parser) modified(e *Expr) *Expr {
	for p.is("[", "offset", "@") {
		t := p.next()
		word := strings.ToLower(t.text)
		if word == "[" {
			p.span(true)
			if p.accept(":") {
				if !p.is("]") {
					p.span(true)
				}
				p.want(e, "a subquery is of", vector)
				e = &Expr{Type: Subquery, kind: matrix, Pos: e.Pos, Args: []*Expr{e}}
			} else {
				if e.Type != Selector || e.kind == matrix || e.sealed != "" {
					p.fail(t.pos, "a range is of a selector, before offset and @")
				}
				e.kind = matrix
			}
			p.expect("]")
			continue
		}
		if e.Type != Selector && e.Type != Subquery || strings.Contains(e.sealed, word) {
			p.fail(t.pos, "%s stands once, after a selector or a subquery", word)
		}
		e.sealed += word
		signed := p.accept("-", "+")
		if word == "@" && !signed && p.accept("start", "end") {
			p.expect("(")
			p.expect(")")
		} else {
			p.span(false)
		}
	}
	return e
}

// span reads a duration or a number of seconds.
func (p *parser) span(positive bool) {
	if p.token.kind != number {
		p.unexpected("a duration")
	} else if at := p.token.pos; p.number() == 0 && positive {
		p.fail(at, "no time at all")
	}
}
