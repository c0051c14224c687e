package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// documented says of the commands and programs of each document, by their beginnings, which test runs them, or why none
// does.
var documented = []struct {
	document string
	begins   string // of the line, or the language of a program
	test     string // a function, or a script below testdata/script
	why      string // why it has no test
}{
	{"README.md", "go run ./cmd/refitd quickstart", "quickstart.txtar", ""},
	{"README.md", "go build -o refitd", "", "the command of the tests is that build"},
	{"README.md", "", "TestReadme", ""},
	{"tutorial.md", "", "TestTutorial", ""},
	{"recipes.md", "", "TestRecipes", ""},
	{"files.md", "refitd init", "", "a file of the reader's: TestTutorial runs these verbs on one that it makes"},
	{"files.md", "refitd backtest", "", "the same"},
	{"files.md", "refitd fit", "", "the same"},
	{"formats.md", "refitd init", "TestReplayInFormats", ""},
	{"formats.md", "refitd replay", "TestReplayInFormats", ""},
	{"consumers.md", "curl", "TestHTTP", ""},
	{"consumers.md", "go", "",
		"fragments of programs: README.md and tutorial.md have whole ones, the examples of package snapshot compile " +
			"the rest"},
	{"consumers.md", "python", "",
		"each shows a single call: snapshot/python has tests of them, README.md and tutorial.md have programs"},
	{"operations.md", "refitd check config", "check_config.txtar", ""},
	{"operations.md", "refitd state backup", "upgrade.txtar", ""},
	{"operations.md", "refitd state restore", "upgrade.txtar", ""},
	{"operations.md", "refitd state accept-gap", "operator.txtar", ""},
	{"operations.md", "refitd verify", "operator.txtar", ""},
	{"operations.md", "refitd versions prune --state", "places.txtar", ""},
	{"operations.md", "refitd state rebuild", "operator.txtar", ""},
	{
		"operations.md",
		"rm ",
		"",
		"a file of a state that is damaged by hand; the daemon without it is in the package crash",
	},
	{"kafka.md", "refitd state accept-gap", "operator.txtar", ""},
	{"kafka.md", "kafka-acls", "", "a program of Kafka, with the names of another cluster"},
	{"performance.md", "refitd backtest", "", "figures of data sets that are not in this repository"},
	{"performance.md", "refitd fit", "", "figures of a data set that is not in this repository"},
	{"performance.md", "go run ./cmd/paper", "", "minutes to hours each, on data sets that are not in this repository"},
	{"faults.md", "go build -tags failpoint", "", "the tests of daemon/faults build it"},
	{"faults.md", "FAIL=", "", "the tests of daemon/faults run it, at each step"},
}

// commandLine is what begins like a command in a block that is indented or fenced.
var commandLine = regexp.MustCompile(
	`^(\$ )?((?:[A-Z_]+='?\S+ )*(?:\./)?(?:refitd|refitd-failing|go|curl|pip|docker|podman|helm|kubectl|` +
		`git|make|apt|sudo|rm|cp|kafka-\w+|promtool|systemctl|python3?|npm|wget|dpkg|model_signing)\s.*|echo .*\|.*refitd.*)$`,
)

// commandsOf lists the commands of a Markdown text, and of programs their language.
func commandsOf(text string) (list []string) {
	fence, language := false, ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if l, ok := strings.CutPrefix(line, "```"); ok {
			language = l
			if fence = !fence; fence {
				if language == "go" || language == "python" {
					list = append(list, language)
				}
			}
			continue
		}
		code, indented := strings.CutPrefix(line, "    ")
		if fence {
			if language == "go" || language == "python" || language == "json" {
				continue
			}
			code, indented = line, true
		}
		if m := commandLine.FindStringSubmatch(strings.TrimLeft(code, " ")); indented && m != nil &&
			(language != "console" || m[1] != "") {
			list = append(list, m[2])
		}
	}
	return list
}

// placeholders of the documents, as a command line takes them.
var placeholders = strings.NewReplacer("--partition P", "--partition 1", "OFFSET+1", "7", "<storage.path>", "state",
	"./refitd ", "refitd ")

// TestDocumentedCommands: each command in the documents is run by a test that there is, or is said here not to be, and
// why; those of refitd are taken by
// its command line.
func TestDocumentedCommands(t *testing.T) {
	documents, err := filepath.Glob("../../configs/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	used, counts := make([]bool, len(documented)), make(map[string]int)
	for _, path := range append(documents, "../../README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range commandsOf(string(text)) {
			found := false
			for i, d := range documented {
				if found = d.document == filepath.Base(path) && strings.HasPrefix(strings.TrimPrefix(command, "./"),
					d.begins); found {
					used[i] = true
					counts[d.test]++
					if d.test == "" {
						t.Logf("not run: %s: %s: %s", d.document, command, d.why)
					}
					break
				}
			}
			if !found {
				t.Errorf("%s: no test runs %q, and nothing says why", filepath.Base(path), command)
			}
			if line := placeholders.Replace(command); strings.HasPrefix(line, "refitd ") {
				line, _, _ = strings.Cut(line, " # ")
				parser := new(cli).parser() // one keeps what it has parsed
				at, err := parser.Parse(words(t, strings.TrimSuffix(strings.TrimSpace(line), "&"))[1:])
				if err != nil {
					t.Errorf("%s: %s: %v", filepath.Base(path), command, err)
				} else if name := at.Path[1].Command.Name; isFormer(name) {
					t.Errorf("%s: %s: %s is a former name", filepath.Base(path), command, name)
				}
			}
		}
	}
	grep := exec.CommandContext(t.Context(), "grep", "-rhoE", "--include=*_test.go", `^func Test\w+`, "../..")
	tests, err := grep.Output()
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(tests))
	for i, d := range documented {
		if !used[i] {
			t.Errorf("%s has no command that begins with %q any more", d.document, d.begins)
		}
		if strings.HasSuffix(d.test, ".txtar") {
			script, err := os.ReadFile(filepath.Join("testdata", "script", d.test))
			if err != nil || !strings.Contains(string(script), strings.TrimPrefix(d.begins, "go run ./cmd/")) {
				t.Errorf("%s does not run %q: %v", d.test, d.begins, err)
			}
		} else if d.test != "" && !slices.Contains(names, d.test) {
			t.Errorf("there is no test %s", d.test)
		}
	}
	t.Logf("commands by test: %v", counts)
}

// TestReadme runs the commands of "With your own broker", as they stand there, and then both consumers on the store
// that they leave.
func TestReadme(t *testing.T) {
	tier.NotUnderRace(t)
	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	address := freeAddress(t)
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(b), "127.0.0.1:9092", address)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "configs"), 0o755); err != nil {
		t.Fatal(err)
	}
	conf := regexp.MustCompile(`listen_address: "[^"]*"`).
		ReplaceAllString(read("configs/ratings.yaml"), `listen_address: "127.0.0.1:0"`)
	write("configs/ratings.yaml", conf)
	readme := read("README.md")
	if n := len(strings.Fields(readme)); n > 900 {
		t.Errorf("README.md has %d words, at most 900", n)
	}
	before, rest, _ := strings.Cut(readme, "## With your own broker\n\n")
	_, data, found := strings.Cut(before, "\n    awk ")
	if !found {
		t.Fatal("no command makes u.data")
	}
	section, _, _ := strings.Cut(rest, "\n`u.data`")
	if strings.Count(section, "\n") != 6 {
		t.Fatalf("not the six commands:\n%s", section)
	}
	runShell(t, dir,
		"awk "+data+"\n"+strings.Replace(section, "go build -o refitd ./cmd/refitd", `ln -s "$(command -v refitd)" refitd`, 1),
		"memory at most", "3000", "version 1")
	write("main.go", blocks(readme, "go")[0])
	consumer := exec.CommandContext(t.Context(), "go", "run", filepath.Join(dir, "main.go"),
		filepath.Join(dir, "configs", "snapshots"))
	consumer.Dir = source
	if b, err := consumer.CombinedOutput(); err != nil || !strings.Contains(string(b), "version 1 expects") {
		t.Errorf("the program in Go: %v\n%s", err, b)
	}
	if exec.CommandContext(t.Context(), "python3", "-c", "import numpy").Run() != nil {
		t.Log("the lines in Python are not run: there is no python3 with numpy")
		return
	}
	python := exec.CommandContext(t.Context(), "python3", "-i", "-q")
	python.Dir, python.Env = dir, append(os.Environ(), "PYTHONPATH="+filepath.Join(source, "snapshot", "python"),
		"PYTHONDONTWRITEBYTECODE=1")
	python.Stdin = strings.NewReader(
		blocks(readme, "python")[0] + "\n",
	) // typed, as a newcomer does: what it answers is printed
	if b, err := python.CombinedOutput(); err != nil || strings.Contains(string(b), "Error") ||
		!regexp.MustCompile(`\d\.\d`).Match(b) {
		t.Errorf("the lines in Python: %v\n%s", err, b)
	}
}
