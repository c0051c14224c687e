package configs_test

import (
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// typedPackage is a package of this module with the types of its expressions.
type typedPackage struct {
	path  string
	files []*ast.File
	fset  *token.FileSet
	info  *types.Info
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// everything lists the commands and what they are made of.
var everything = sync.OnceValues(func() ([]listed, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "./cmd/refitd")
	cmd.Dir = ".."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
})

// typed returns the packages of this module, of those that refitd is made of, that wanted takes.
func typed(t *testing.T, wanted func(path string) bool) (packages []typedPackage) {
	t.Helper()
	all, err := everything()
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	lookup := func(path string) (io.ReadCloser, error) {
		i := slices.IndexFunc(all, func(p listed) bool { return p.ImportPath == path })
		return os.Open(all[i].Export)
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}
	for _, p := range all {
		if !strings.HasPrefix(p.ImportPath, module) || !wanted(p.ImportPath) {
			continue
		}
		one := typedPackage{path: p.ImportPath, fset: fset, info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{},
			Selections: map[*ast.SelectorExpr]*types.Selection{}, Uses: map[*ast.Ident]types.Object{}}}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			one.files = append(one.files, file)
		}
		if _, err := conf.Check(p.ImportPath, fset, one.files, one.info); err != nil {
			t.Fatal(err)
		}
		packages = append(packages, one)
	}
	if len(packages) == 0 {
		t.Fatal("no package is as wanted")
	}
	return packages
}

// calls hands over each call of a method of a named type, as "T.method".
func (p *typedPackage) calls(method string, f func(in *ast.File, call *ast.CallExpr)) {
	for _, file := range p.files {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || p.info.Selections[sel] == nil {
				return true
			}
			if typeName(p.info.Selections[sel].Recv())+"."+sel.Sel.Name == method {
				f(file, call)
			}
			return true
		})
	}
}

// typeName is the name of a named type or of what a pointer to it points to, else "".
func typeName(t types.Type) string {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj().Name()
	}
	return ""
}
