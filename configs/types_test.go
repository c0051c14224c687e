package configs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// A type with more fields or methods says in its comment why it is "one type". Objects of JSON and of configurations
// have a field for each member or key, and their comments are in documents: they say nothing.
const (
	maxFields  = 25
	maxMethods = 40
)

// TestTypesAreSmall counts the fields and methods of each struct of the product.
func TestTypesAreSmall(t *testing.T) {
	t.Parallel()
	docs, fields, methods := map[string]string{}, map[string]int{}, map[string]int{}
	for _, file := range sourcesUnder(t, "..", ".go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../")
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					methods[dir+"."+receiverOf(d.Recv.List[0].Type)]++
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					spec, ok := s.(*ast.TypeSpec)
					if !ok {
						continue
					}
					name := dir + "." + spec.Name.Name
					docs[name] = strings.Join(strings.Fields(d.Doc.Text()+" "+spec.Doc.Text()), " ")
					if of, ok := spec.Type.(*ast.StructType); ok {
						fields[name] = of.Fields.NumFields()
					}
				}
			}
		}
	}
	for name, doc := range docs {
		isObject := name == "daemon/config.Train" || strings.HasPrefix(name, "daemon/report.") ||
			strings.HasPrefix(name, "daemon/web/statuspage.")
		if isObject {
			continue
		}
		if (fields[name] > maxFields || methods[name] > maxMethods) && !strings.Contains(doc, " one type") {
			t.Errorf("%s has %d fields and %d methods, at most %d and %d: make it two, or say why it is one type", name,
				fields[name], methods[name], maxFields, maxMethods)
		}
	}
}

// receiverOf returns the name of the type of a receiver.
func receiverOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverOf(e.X)
	case *ast.IndexExpr:
		return receiverOf(e.X)
	case *ast.IndexListExpr:
		return receiverOf(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
