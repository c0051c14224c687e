package refit

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStagesDoNotWriteTasks: no function of a stage assigns to what a *task.Task parameter holds, or to its Problem or
// Vocab. Stages return what they found, and may run at once.
func TestStagesDoNotWriteTasks(t *testing.T) {
	functions := 0
	for _, dir := range []string{"choose", "convex", "variational", "../gate"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, files, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			n, written := taskWrites(t, file, string(source))
			functions += n
			for _, at := range written {
				t.Errorf("%s: a stage writes its task: let it return what it found", at)
			}
		}
	}
	if functions < 50 {
		t.Errorf("%d functions take a task: have they moved?", functions)
	}
	const bad = "package p\n\nfunc f(j *task.Task) { j.Choices.Plain = true; j.Rows.Problem.Weights[0]++; k := j.Vocab }\n"
	if _, written := taskWrites(t, "bad.go", bad); len(written) != 2 {
		t.Errorf("%d writes are found in a function with two", len(written))
	}
}

// taskWrites returns how many functions take a *task.Task, and where one assigns to what it holds.
func taskWrites(t *testing.T, name, source string) (functions int, written []token.Position) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, declaration := range file.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		tasks := map[string]bool{} // by name: none of these functions shadows it
		for _, p := range f.Type.Params.List {
			star, _ := p.Type.(*ast.StarExpr)
			if star == nil {
				continue
			}
			if typ, _ := star.X.(*ast.SelectorExpr); typ == nil || typ.Sel.Name != "Task" {
				continue
			}
			for _, id := range p.Names {
				tasks[id.Name] = true
			}
		}
		if len(tasks) > 0 {
			functions++
		}
		check := func(target ast.Expr) {
			if root := rootOf(target); root != nil && root != target && tasks[root.Name] {
				written = append(written, set.Position(target.Pos()))
			}
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, target := range n.Lhs {
					check(target)
				}
			case *ast.IncDecStmt:
				check(n.X)
			}
			return true
		})
	}
	return functions, written
}

// rootOf returns the variable that an expression such as j.Rows.Problem.Weights[0] begins with; nil without one.
func rootOf(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}
