package configs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxMessage is how many characters the message of a line of the log may have: what differs is in its fields.
const maxMessage = 60

// logger is what variables and fields with a log are called.
var logger = regexp.MustCompile(`(?i)^(log|logger|slog)$`)

// TestLogMessages: messages of the log are constant and short, so that one can look for them, and the words of the
// dictionary: a sample is no reservoir, a vocabulary no dictionary.
func TestLogMessages(t *testing.T) {
	t.Parallel()
	messages := 0
	for _, file := range sourcesUnder(t, "..", ".go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			message, found := messageOf(n)
			if !found {
				return true
			}
			messages++
			place := strings.TrimPrefix(filepath.ToSlash(set.Position(n.Pos()).String()), "../")
			literal, isLiteral := message.(*ast.BasicLit)
			if _, isName := message.(*ast.Ident); isName {
				return true // a constant, or a message that a caller of the function has
			}
			if !isLiteral {
				t.Errorf("%s: the message is not constant: what differs belongs into fields", place)
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			if length := utf8.RuneCountInString(text); length > maxMessage {
				t.Errorf("%s: %d characters, at most %d: %q", place, length, maxMessage, text)
			}
			if strings.Contains(text, "reservoir") || strings.Contains(text, "dictionary") {
				t.Errorf("%s: %q: say sample and vocabulary", place, text)
			}
			return true
		})
	}
	if messages < 50 {
		t.Errorf("%d messages found", messages)
	}
}

// messageOf returns the message of a call of a log.
func messageOf(n ast.Node) (message ast.Expr, found bool) {
	call, isCall := n.(*ast.CallExpr)
	if !isCall || len(call.Args) == 0 {
		return nil, false
	}
	method, isMethod := call.Fun.(*ast.SelectorExpr)
	if !isMethod {
		return nil, false
	}
	of := ""
	switch x := method.X.(type) {
	case *ast.Ident:
		of = x.Name
	case *ast.SelectorExpr:
		of = x.Sel.Name
	}
	if !logger.MatchString(of) {
		return nil, false
	}
	switch method.Sel.Name {
	case "Debug", "Info", "Warn", "Error":
		return call.Args[0], true
	case "DebugContext", "InfoContext", "WarnContext", "ErrorContext":
		return call.Args[1], true
	case "Log":
		return call.Args[min(2, len(call.Args)-1)], true
	}
	return nil, false
}
