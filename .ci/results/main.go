// Command results reads what `go test -json` prints and keeps what became of each test, over the stages of a run.
//
//	go test -json ... | results FILE [-figures]   prints failures and, with -figures, what passing tests logged; adds to FILE. The file that the
//	                                              environment names as FAILED gets the arguments for go test of another try: a pattern of
//	                                              the tests that failed, and the packages
//	results FILE -skipped TEXT                    prints the arguments for go test of the tests that ran in no stage so far, and skipped with TEXT in
//	                                              the reason: a pattern and their packages
//	results FILE -table TABLE                     prints the rows of the fault catalogue in TABLE with the results of their tests,
//	                                              then every test that never ran but was skipped, with its reason
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

const module = "github.com/refitd/refitd/"

// event is a line of `go test -json`.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// result is what became of one test. The best counts over stages, but for a failure: what one skips may have run in
// another.
type result struct {
	Status  string  `json:"status"` // pass, skip or fail
	Seconds float64 `json:"seconds"`
	Reason  string  `json:"reason,omitempty"` // of a skip
}

func main() {
	log.SetFlags(0)
	args := os.Args[1:]
	if len(args) < 1 || len(args) > 3 || len(args) == 3 && args[1] != "-table" && args[1] != "-skipped" ||
		len(args) == 2 && args[1] != "-figures" {
		log.Fatal("usage: results FILE [-figures | -skipped TEXT | -table TABLE]")
	}
	results := map[string]result{}
	if len(args) == 3 {
		held, err := lock(args[0])
		if err == nil {
			results, err = load(args[0])
			held.Close()
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	if len(args) == 3 && args[1] == "-skipped" {
		maps.DeleteFunc(results,
			func(_ string, r result) bool { return r.Status != "skip" || !strings.Contains(r.Reason, args[2]) })
		if len(results) > 0 {
			fmt.Println("-run", pattern(results, func(result) bool { return true }),
				strings.Join(packages(results), " "))
		}
		return
	}
	if len(args) == 3 {
		if err := table(os.Stdout, args[2], results); err != nil {
			log.Fatal(err)
		}
		return
	}
	mine := map[string]result{}
	failed, err := read(os.Stdin, os.Stdout, mine, len(args) == 2)
	if err == nil {
		err = add(args[0], mine)
	}
	if again := os.Getenv("FAILED"); err == nil && again != "" {
		arguments := ""
		if p := pattern(mine, func(r result) bool { return r.Status == "fail" }); p != "" {
			arguments = strings.Join(append([]string{"-run", p}, failed...), " ")
		}
		err = os.WriteFile(again, []byte(arguments), 0o600)
	}
	if err != nil {
		log.Fatal(err)
	}
	if len(failed) > 0 {
		os.Exit(1)
	}
}

func load(file string) (map[string]result, error) {
	results := map[string]result{}
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return results, nil
	}
	if err != nil {
		return nil, err
	}
	return results, json.Unmarshal(b, &results)
}

// lock keeps others from the file until what it returns is closed.
func lock(file string) (*os.File, error) {
	held, err := os.OpenFile(file+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return held, syscall.Flock(int(held.Fd()), syscall.LOCK_EX)
}

// add adds results to those in the file, which stages that run side by side share.
func add(file string, mine map[string]result) error {
	held, err := lock(file)
	if err != nil {
		return err
	}
	defer held.Close()
	results, err := load(file)
	if err != nil {
		return err
	}
	for name, r := range mine {
		keep(results, name, r)
	}
	b, err := json.Marshal(results)
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o600)
}

// logged matches a line that a test wrote with its log methods.
var logged = regexp.MustCompile(`^\s+\w+_test\.go:\d+: `)

// read takes the events of one go test, and returns the packages that failed.
func read(in io.Reader, out io.Writer, results map[string]result, figures bool) (failed []string, err error) {
	output := map[string][]string{} // by test, until it ends
	var ended []event               // packages without a failure
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(out, lines.Text())
			continue
		}
		name := strings.TrimPrefix(e.Package, module) + "." + e.Test
		switch {
		case e.Action == "output" || e.Action == "build-output":
			output[name] = append(output[name], e.Output)
		case e.Action == "build-fail": // that of the package follows
			fmt.Fprint(out, strings.Join(output[name], ""))
		case e.Action != "pass" && e.Action != "fail" && e.Action != "skip":
		case e.Test == "":
			if e.Action == "fail" {
				failed = append(failed, e.Package)
				broken(out, output, results, name)
				fmt.Fprintf(out, "fail  %-45s %6.1f s\n", strings.TrimPrefix(e.Package, module), e.Elapsed)
			} else {
				ended = append(ended, event{Package: strings.TrimPrefix(e.Package, module), Elapsed: e.Elapsed})
			}
			delete(output, name)
		default:
			r := result{Status: e.Action, Seconds: e.Elapsed}
			notes := strings.Join(
				slices.DeleteFunc(slices.Clone(output[name]), func(l string) bool { return !logged.MatchString(l) }),
				"")
			switch {
			case e.Action == "fail":
				fmt.Fprint(out, strings.Join(output[name], ""))
			case e.Action == "skip":
				r.Reason = strings.TrimSpace(logged.ReplaceAllString(notes, ""))
			case figures && notes != "":
				fmt.Fprintf(out, "%s\n%s", name, notes)
			}
			keep(results, name, r)
			delete(output, name)
		}
	}
	slices.SortFunc(ended, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	fmt.Fprintf(out, "%d packages without a failure", len(ended))
	for i, p := range ended[:min(5, len(ended))] {
		fmt.Fprintf(out, "%s %s %.0f s", []string{", the longest", ","}[min(i, 1)], p.Package, p.Elapsed)
	}
	fmt.Fprintln(out)
	return failed, lines.Err()
}

// broken prints what a failed package said itself, and what the tests said that it took with it: a panic ends a test
// without a result.
func broken(out io.Writer, output map[string][]string, results map[string]result, name string) {
	for _, test := range slices.Sorted(maps.Keys(output)) {
		said := slices.DeleteFunc(slices.Clone(output[test]),
			func(l string) bool { return strings.HasPrefix(l, "=== ") })
		if !strings.HasPrefix(test, name) || len(said) == 0 {
			continue
		}
		fmt.Fprintf(out, "%s\n%s", test, strings.Join(said[:min(len(said), 100)], ""))
		if test != name {
			keep(results, test, result{Status: "fail"})
			delete(output, test)
		}
	}
}

// pattern returns one for go test -run of the tests with a result, empty without such a test.
func pattern(results map[string]result, with func(result) bool) string {
	var names []string
	for name, r := range results {
		_, test, _ := strings.Cut(name, ".")
		if with(r) && test != "" && !strings.Contains(test, "/") {
			names = append(names, test)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "^(" + strings.Join(slices.Compact(names), "|") + ")$"
}

// packages returns those of the tests, as paths below this folder.
func packages(results map[string]result) (paths []string) {
	for name := range results {
		path, _, _ := strings.Cut(name, ".")
		paths = append(paths, "./"+path)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func keep(results map[string]result, name string, r result) {
	order := []string{"skip", "pass", "fail"}
	if old, ok := results[name]; !ok || slices.Index(order, r.Status) >= slices.Index(order, old.Status) {
		results[name] = r
	}
}

var (
	row  = regexp.MustCompile(`^\| ([A-H]\d+) \|`)
	test = regexp.MustCompile("`([\\w/]+\\.Test\\w+)`")
)

// table prints what became of the tests behind each row of the catalogue.
func table(out io.Writer, file string, results map[string]result) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(b)) {
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		names := test.FindAllStringSubmatch(line, -1)
		status := "no test" // the table says why
		var parts []string
		for _, n := range names {
			r, ok := results[n[1]]
			if !ok {
				r.Status = "not run"
			}
			parts = append(parts, fmt.Sprintf("%s %s", n[1], r.Status))
			status = worse(status, r.Status)
		}
		counts[status]++
		fmt.Fprintf(out, "%-4s %-8s %s\n", m[1], status, strings.Join(parts, ", "))
	}
	fmt.Fprintf(out, "rows: %d pass, %d fail, %d skipped, %d not run, %d without a test\n", counts["pass"],
		counts["fail"], counts["skip"], counts["not run"], counts["no test"])
	skipped := 0
	for _, name := range slices.Sorted(maps.Keys(results)) {
		if r := results[name]; r.Status == "skip" {
			skipped++
			fmt.Fprintf(out, "skipped %s: %s\n", name, r.Reason)
		}
	}
	fmt.Fprintf(out, "tests: %d, of which %d were skipped and ran in no stage\n", len(results), skipped)
	return nil
}

// worse is the status of a row so far with one more test.
func worse(a, b string) string {
	order := []string{"no test", "pass", "skip", "not run", "fail"}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}
