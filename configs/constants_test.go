package configs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// origin is what says where a constant comes from. A mark or a unit is not chosen: it defines something.
var origin = regexp.MustCompile(`(?i)\b(derived|literature|tuned|measured|by\s+hand|defines?)\b`)

// TestConstantsSayWhereTheyAreFrom: the comment of each named number of the learner, or that of its group, says whether
// it is derived, from the literature, tuned, measured or chosen by hand.
func TestConstantsSayWhereTheyAreFrom(t *testing.T) {
	for _, root := range []string{"../daemon/cycle", "../solver/posterior"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.HasSuffix(filepath.Dir(path), "test") {
				return err
			}
			source, err := os.ReadFile(path)
			if err == nil {
				for _, name := range unexplained(t, path, string(source)) {
					t.Errorf("%s: the comment of %s does not say where it comes from", path, name)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// unexplained returns the numbers of a source file whose comments do not say where they come from.
func unexplained(t *testing.T, path, source string) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || origin.MatchString(group.Doc.Text()) {
			continue
		}
		for _, spec := range group.Specs {
			of, ok := spec.(*ast.ValueSpec)
			if ok && areNumbers(of.Values) && !origin.MatchString(of.Doc.Text()+of.Comment.Text()) {
				names = append(names, of.Names[0].Name)
			}
		}
	}
	return names
}

// areNumbers reports whether values are made of number literals, or lists of such. A count of names (iota) is none.
func areNumbers(values []ast.Expr) bool {
	numbers, others := 0, 0
	for _, value := range values {
		ast.Inspect(value, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if n.Kind == token.INT || n.Kind == token.FLOAT {
					numbers++
				} else {
					others++
				}
			case *ast.Ident:
				if n.Name == "iota" {
					others++
				}
			case *ast.ArrayType:
				return false // its length is not one of the numbers
			case *ast.KeyValueExpr, *ast.FuncLit:
				others++
			}
			return true
		})
	}
	return numbers > 0 && others == 0
}

func TestUnexplained(t *testing.T) {
	const source = `package p
// Chosen by hand.
const a = 1
const b = 2 // of c
const (
	c = 0.5 // derived from b
	d = "3"
	e = b * 4
)
const (
	f = iota + 1
	g
)
var h, i = []float64{1, 2}, 3 // steps
var j = func() int { return 5 }()
`
	if got := strings.Join(unexplained(t, "p.go", source), " "); got != "b e h" {
		t.Errorf("not explained: %q", got)
	}
}
