package configs_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	maxArchitectureLines = 250 // read in a quarter of an hour
	minChanges           = 25  // rows of "I want to change …"
	maxRecipeLines       = 500 // to read before the first edit
	numRecipes           = 5
)

var codeSpan = regexp.MustCompile("`([^`\n]+)`")

// TestArchitecture: the document is short, and each path and each test that it names exists.
func TestArchitecture(t *testing.T) {
	t.Parallel()
	text := string(mustRead(t, "../ARCHITECTURE.md"))
	if n := strings.Count(text, "\n"); n > maxArchitectureLines {
		t.Errorf("%d lines, at most %d", n, maxArchitectureLines)
	}
	paths, tests := pathsOfTree(t), testsOfTree(t)
	path := regexp.MustCompile(`^[\w.-]+(/[\w.-]+)*$`)
	file := regexp.MustCompile(`\.(go|md|py|json|ya?ml|txt)$`)
	for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
		name := m[1]
		switch {
		case strings.HasPrefix(name, "Test"):
			if !tests[name] {
				t.Errorf("no test is called %s", name)
			}
		case !path.MatchString(name) || !strings.Contains(name, "/") && !file.MatchString(name):
		case !isSuffix(paths, name):
			t.Errorf("%s does not exist", name)
		}
	}
}

// TestIWantToChange: each row has one folder, which exists and has the first file that the row begins with.
func TestIWantToChange(t *testing.T) {
	t.Parallel()
	rows := tableOf(sectionOf(t, "## I want to change …"))
	if len(rows) < minChanges {
		t.Errorf("%d rows, at least %d", len(rows), minChanges)
	}
	for _, row := range rows {
		what := strings.TrimSpace(row[0])
		folder := codeSpan.FindAllStringSubmatch(row[1], -1)
		if len(folder) != 1 {
			t.Errorf("%s: %d folders, want one", what, len(folder))
			continue
		}
		root := filepath.Join("..", filepath.FromSlash(folder[0][1]))
		if info, err := os.Stat(root); err != nil || !info.IsDir() {
			t.Errorf("%s: %s is no folder", what, folder[0][1])
			continue
		}
		first := codeSpan.FindStringSubmatch(row[2])
		if first == nil {
			t.Errorf("%s: no file to begin with", what)
			continue
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(first[1]))); err != nil {
			t.Errorf("%s: %s has no %s", what, folder[0][1], first[1])
		}
	}
}

// TestRecipesAreShort: what a recipe asks to read first is short, and it exists.
func TestRecipesAreShort(t *testing.T) {
	t.Parallel()
	recipes := 0
	for recipe := range strings.SplitSeq(sectionOf(t, "## Five recipes"), "\n**") {
		title, rest, _ := strings.Cut(recipe, ".**")
		_, rest, found := strings.Cut(rest, "\n- Read")
		if !found {
			continue
		}
		recipes++
		reads, _, _ := strings.Cut(rest, "\n- Write")
		for alternative := range strings.SplitSeq(reads, "For files:") { // a stranger reads one of both
			if n := linesToRead(t, alternative); n == 0 || n > maxRecipeLines {
				t.Errorf("%s: %d lines to read, want 1 to %d", title, n, maxRecipeLines)
			}
		}
	}
	if recipes != numRecipes {
		t.Errorf("%d recipes, want %d", recipes, numRecipes)
	}
}

// linesToRead adds up the lines of the files that a text names, or of the declarations in parentheses after a file.
func linesToRead(t *testing.T, text string) (lines int) {
	t.Helper()
	item := regexp.MustCompile("`([^`]+\\.go)`(?:\\s*\\(([^)]+)\\))?")
	for _, m := range item.FindAllStringSubmatch(text, -1) {
		source := mustRead(t, "../"+m[1])
		if m[2] == "" {
			lines += bytes.Count(source, []byte("\n"))
			continue
		}
		declared := linesOfDeclarations(t, m[1], source)
		for _, name := range codeSpan.FindAllStringSubmatch(m[2], -1) {
			n, ok := declared[name[1]]
			if !ok {
				t.Errorf("%s does not declare %s", m[1], name[1])
			}
			lines += n
		}
	}
	return lines
}

// linesOfDeclarations returns the lines of each top-level declaration with its comment: of methods by Type.Name.
func linesOfDeclarations(t *testing.T, path string, source []byte) map[string]int {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]int{}
	add := func(name string, doc *ast.CommentGroup, node ast.Node) {
		from := node.Pos()
		if doc != nil {
			from = doc.Pos()
		}
		lines[name] = files.Position(node.End()).Line - files.Position(from).Line + 1
	}
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				of := d.Recv.List[0].Type
				if star, ok := of.(*ast.StarExpr); ok {
					of = star.X
				}
				if ident, ok := of.(*ast.Ident); ok {
					name = ident.Name + "." + name
				}
			}
			add(name, d.Doc, d)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok {
					add(s.Name.Name, d.Doc, d)
				}
			}
		}
	}
	return lines
}

// sectionOf returns a section of ARCHITECTURE.md without its heading.
func sectionOf(t *testing.T, heading string) string {
	t.Helper()
	_, after, found := strings.Cut(string(mustRead(t, "../ARCHITECTURE.md")), "\n"+heading+"\n")
	if !found {
		t.Fatalf("ARCHITECTURE.md has no heading %q", heading)
	}
	section, _, _ := strings.Cut(after, "\n## ")
	return section
}

// tableOf returns the cells of the rows of the first table of a text, without its head.
func tableOf(text string) (rows [][]string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "|") {
			rows = append(rows, strings.Split(strings.Trim(line, "|"), "|"))
		} else if len(rows) > 0 {
			break
		}
	}
	return rows[min(2, len(rows)):]
}

// pathsOfTree returns the files and folders of the repository, from its root and with a slash before.
func pathsOfTree(t *testing.T) (paths []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == ".git" {
			return filepath.SkipDir
		}
		paths = append(paths, strings.TrimPrefix(filepath.ToSlash(path), ".."))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// isSuffix reports whether one of the paths is or ends in a path.
func isSuffix(paths []string, path string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return strings.HasSuffix(p, "/"+path) })
}

// testsOfTree returns the names of all tests.
func testsOfTree(t *testing.T) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	names := map[string]bool{}
	for _, file := range sourcesUnder(t, "..", ".go") {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range declared.FindAllSubmatch(mustRead(t, file), -1) {
			names[string(m[1])] = true
		}
	}
	return names
}
