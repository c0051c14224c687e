package configs_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A new arrow between packages is a decision, so -update, which is for documents, does not write the table of rooms.
var updateRooms = flag.Bool("rooms", false, "write the table of imports in deps_test.go: a new line is for a reviewer")

// rooms has a row for each package of daemon, sketch and solver: its path, and below it the packages of this module
// that it may import, with and without the tags of the simulation. Tests of a package may import what they like.
//
// go test ./configs -run TestRooms -rooms writes it.
const rooms = `
daemon
	consumer daemon/build daemon/cluster daemon/config daemon/memory daemon/model daemon/model/metrics daemon/model/part
	daemon/model/versions daemon/report daemon/shard daemon/traces daemon/web daemon/web/statuspage sketch snapshot
	snapshot/backoff snapshot/failpoint
daemon/announce
	daemon/produce snapshot snapshot/backoff snapshot/format snapshot/format/pointer snapshot/kafkasource
	snapshot/publish
daemon/broker
daemon/build
daemon/choices
	consumer/event daemon/config daemon/report snapshot
daemon/cluster
	consumer consumer/signin daemon/config daemon/report
daemon/config
	consumer/event daemon/config/files daemon/config/scalar daemon/config/strictyaml snapshot/format snapshot/objects
	solver solver/coordinate solver/margin solver/posterior
daemon/config/files
	consumer/event daemon/config/scalar daemon/config/strictyaml
daemon/config/scalar
daemon/config/strictyaml
	daemon/config/scalar
daemon/crash
	sketch snapshot/durable
daemon/curves
	daemon/report snapshot/durable
daemon/cycle
	consumer/event daemon/config daemon/cycle/admission daemon/cycle/baselines daemon/cycle/drift daemon/cycle/encode
	daemon/cycle/evaluate daemon/cycle/experts daemon/cycle/fitted daemon/cycle/gate daemon/cycle/guard
	daemon/cycle/mixture daemon/cycle/refit daemon/cycle/refit/choose daemon/cycle/refit/convex daemon/cycle/refit/task
	daemon/cycle/rows daemon/cycle/tables daemon/cycle/updates daemon/cycle/vectors daemon/quality daemon/report
	snapshot snapshot/format snapshot/scorer solver
daemon/cycle/admission
	consumer/event daemon/config daemon/cycle/encode daemon/cycle/rows daemon/cycle/tables
daemon/cycle/baselines
	consumer/event daemon/cycle/admission daemon/cycle/encode daemon/cycle/rows
daemon/cycle/cycletest
	consumer/event daemon/config
daemon/cycle/cycletest/refits
	consumer/event daemon/config daemon/cycle/cycletest daemon/cycle/encode daemon/cycle/fitted daemon/cycle/refit
	daemon/cycle/refit/task daemon/cycle/rows daemon/report snapshot/format
daemon/cycle/drift
	daemon/config daemon/cycle/evaluate daemon/cycle/experts daemon/cycle/mixture
daemon/cycle/encode
	consumer/event daemon/config daemon/cycle/rows daemon/cycle/tables daemon/report snapshot/format solver
	solver/posterior solver/ridge
daemon/cycle/evaluate
	consumer/event daemon/cycle/encode daemon/quality daemon/report snapshot/format solver
daemon/cycle/experts
	consumer/event daemon/config daemon/cycle/admission daemon/cycle/encode daemon/cycle/evaluate daemon/cycle/fitted
	daemon/cycle/kdtree daemon/cycle/rows daemon/cycle/tables daemon/cycle/trees snapshot/format solver solver/posterior
	solver/posterior/online solver/ridge
daemon/cycle/fitted
	consumer/event daemon/config daemon/cycle/encode daemon/cycle/evaluate daemon/cycle/rows daemon/cycle/tables
	daemon/cycle/vectors daemon/report snapshot snapshot/format solver solver/posterior solver/posterior/online
daemon/cycle/gate
	consumer/event daemon/config daemon/cycle/admission daemon/cycle/encode daemon/cycle/evaluate daemon/cycle/experts
	daemon/cycle/fitted daemon/cycle/refit/task daemon/cycle/rows daemon/cycle/vectors daemon/report snapshot/format
	solver solver/posterior
daemon/cycle/guard
	consumer/event daemon/cycle/encode daemon/cycle/evaluate daemon/cycle/fitted daemon/cycle/rows daemon/cycle/tables
	daemon/report snapshot/format
daemon/cycle/kdtree
daemon/cycle/mixture
	consumer/event daemon/config daemon/cycle/admission daemon/cycle/baselines daemon/cycle/encode daemon/cycle/evaluate
	daemon/cycle/experts daemon/cycle/rows daemon/report snapshot/format solver solver/posterior solver/ridge
daemon/cycle/refit
	consumer/event daemon/config daemon/cycle/encode daemon/cycle/evaluate daemon/cycle/fitted daemon/cycle/gate
	daemon/cycle/refit/choose daemon/cycle/refit/convex daemon/cycle/refit/task daemon/cycle/refit/variational
	daemon/cycle/vectors daemon/report snapshot/format solver solver/margin solver/posterior
daemon/cycle/refit/choose
	consumer/event daemon/config daemon/cycle/encode daemon/cycle/evaluate daemon/cycle/fitted daemon/cycle/gate
	daemon/cycle/refit/convex daemon/cycle/refit/task daemon/cycle/refit/variational snapshot/format solver
daemon/cycle/refit/convex
	consumer/event daemon/config daemon/cycle/encode daemon/cycle/evaluate daemon/cycle/fitted daemon/cycle/refit/task
	daemon/cycle/rows daemon/report snapshot/format solver solver/margin
daemon/cycle/refit/task
	consumer/event daemon/choices daemon/config daemon/cycle/admission daemon/cycle/encode daemon/cycle/evaluate
	daemon/cycle/experts daemon/cycle/fitted daemon/cycle/guard daemon/cycle/rows daemon/cycle/tables
	daemon/cycle/vectors daemon/report snapshot snapshot/format snapshot/scorer solver solver/margin solver/posterior
	solver/posterior/sweep
daemon/cycle/refit/variational
	consumer/event daemon/cycle/encode daemon/cycle/evaluate daemon/cycle/experts daemon/cycle/fitted daemon/cycle/gate
	daemon/cycle/refit/convex daemon/cycle/refit/task daemon/cycle/rows daemon/cycle/vectors solver solver/posterior
	solver/posterior/online solver/posterior/sweep
daemon/cycle/rows
	consumer/event daemon/config daemon/report
daemon/cycle/schedule
	daemon/config
daemon/cycle/tables
	consumer/event daemon/config daemon/cycle/rows
daemon/cycle/trees
daemon/cycle/updates
	consumer/event daemon/config daemon/cycle/encode daemon/cycle/evaluate daemon/cycle/experts daemon/cycle/fitted
	daemon/cycle/gate daemon/cycle/guard daemon/cycle/mixture daemon/cycle/refit/convex daemon/cycle/rows
	daemon/cycle/tables daemon/report snapshot snapshot/format snapshot/scorer solver solver/posterior
daemon/cycle/vectors
	daemon/cycle/tables solver/posterior
daemon/daemontest
	consumer/event daemon daemon/broker daemon/config daemon/report
daemon/daemontest/liar
daemon/daemontest/locked
daemon/daemontest/mutant
daemon/daemontest/published
	snapshot/publish
daemon/daemontest/tier
daemon/dataset
	consumer/event daemon/dataset/parquet
daemon/dataset/parquet
daemon/deadletter
	consumer/event/framing daemon/cluster daemon/config daemon/produce sketch snapshot/backoff snapshot/failpoint
daemon/diff
	daemon/report snapshot snapshot/format
daemon/durations
daemon/export
	consumer/event daemon/config daemon/cycle/rows sketch snapshot snapshot/format snapshot/publish
daemon/faults
daemon/ingest
	consumer consumer/event consumer/event/framing daemon/choices daemon/cluster daemon/config daemon/crash daemon/cycle
	daemon/cycle/encode daemon/cycle/rows daemon/cycle/tables daemon/cycle/updates daemon/ingest/binding
	daemon/ingest/formats daemon/ingest/negatives daemon/ingest/pasts daemon/report sketch snapshot/failpoint
	snapshot/format
daemon/ingest/binding
	consumer consumer/event daemon/config sketch
daemon/ingest/formats
	consumer/event consumer/event/avro consumer/event/framing consumer/event/jsonschema consumer/event/protobuf
	consumer/registry daemon/config daemon/report sketch snapshot/backoff snapshot/durable
daemon/ingest/ingesttest
	consumer daemon/config
daemon/ingest/negatives
	consumer/event daemon/config daemon/cycle daemon/cycle/encode daemon/cycle/rows sketch
daemon/ingest/pasts
	consumer/event daemon/config daemon/cycle/rows daemon/cycle/tables sketch
daemon/logs
daemon/memory
	daemon/config daemon/curves daemon/cycle daemon/cycle/experts daemon/cycle/guard daemon/cycle/refit/variational
	daemon/ingest daemon/notify daemon/scoring daemon/shard sketch solver solver/coordinate solver/margin
	solver/posterior solver/posterior/online solver/posterior/sweep
daemon/model
	consumer consumer/event daemon/announce daemon/cluster daemon/config daemon/crash daemon/curves daemon/cycle
	daemon/cycle/admission daemon/cycle/fitted daemon/ingest daemon/ingest/formats daemon/memory daemon/model/metrics
	daemon/model/part daemon/model/read daemon/model/role daemon/model/state daemon/model/train daemon/model/versions
	daemon/notify daemon/quality daemon/report daemon/scoring daemon/vectors daemon/web daemon/web/statuspage sketch
	snapshot snapshot/durable snapshot/publish
daemon/model/metrics
	consumer/event daemon/config daemon/cycle/drift daemon/cycle/fitted daemon/cycle/guard daemon/deadletter
	daemon/durations daemon/ingest daemon/report daemon/scoring daemon/shard
daemon/model/modeltest
	daemon/config
daemon/model/part
	consumer daemon/config daemon/model/metrics daemon/report
daemon/model/read
	consumer consumer/event consumer/event/framing daemon/choices daemon/config daemon/crash daemon/curves daemon/cycle
	daemon/cycle/fitted daemon/deadletter daemon/ingest daemon/ingest/formats daemon/ingest/negatives
	daemon/ingest/pasts daemon/model/part daemon/model/role daemon/model/state daemon/report daemon/scoring
	daemon/traces daemon/web/statuspage sketch snapshot snapshot/backoff snapshot/durable
daemon/model/role
	consumer daemon/cluster daemon/config daemon/cycle daemon/cycle/rows daemon/cycle/updates daemon/ingest
	daemon/ingest/binding daemon/memory daemon/model/part daemon/model/state daemon/publish daemon/report daemon/shard
	sketch snapshot/durable
daemon/model/state
	consumer daemon/config daemon/crash daemon/cycle daemon/cycle/fitted daemon/ingest daemon/ingest/binding
	daemon/model/part daemon/report daemon/space daemon/statedir sketch snapshot snapshot/durable snapshot/failpoint
	snapshot/format snapshot/publish
daemon/model/train
	daemon/config daemon/crash daemon/curves daemon/cycle daemon/cycle/admission daemon/cycle/encode daemon/cycle/fitted
	daemon/cycle/schedule daemon/cycle/updates daemon/durations daemon/ingest daemon/model/metrics daemon/model/part
	daemon/model/read daemon/model/role daemon/model/state daemon/model/versions daemon/publish daemon/report
	daemon/shard daemon/traces snapshot snapshot/backoff snapshot/failpoint snapshot/format
daemon/model/versions
	daemon/config daemon/curves daemon/cycle daemon/cycle/fitted daemon/cycle/guard daemon/cycle/updates
	daemon/model/metrics daemon/model/part daemon/model/state daemon/publish daemon/report daemon/traces daemon/web
	daemon/web/statuspage sketch snapshot snapshot/format snapshot/publish
daemon/notify
	daemon/curves snapshot snapshot/backoff snapshot/durable snapshot/publish
daemon/offline
	consumer/event daemon/config daemon/cycle/tables daemon/dataset daemon/export daemon/ingest daemon/ingest/binding
	daemon/ingest/formats daemon/ingest/pasts daemon/progress daemon/report sketch snapshot snapshot/durable
	snapshot/format snapshot/objects snapshot/publish
daemon/offline/backtest
	consumer/event daemon/choices daemon/config daemon/cycle daemon/cycle/drift daemon/cycle/encode
	daemon/cycle/evaluate daemon/cycle/fitted daemon/cycle/refit/task daemon/cycle/rows daemon/cycle/schedule
	daemon/cycle/updates daemon/dataset daemon/ingest daemon/offline daemon/offline/fit daemon/plot daemon/progress
	daemon/publish daemon/report sketch snapshot snapshot/scorer
daemon/offline/evaluate
	consumer/event daemon/choices daemon/config daemon/cycle/encode daemon/cycle/evaluate daemon/dataset daemon/offline
	daemon/offline/fit daemon/progress daemon/report snapshot snapshot/format
daemon/offline/fit
	consumer/event daemon/config daemon/cycle/encode daemon/cycle/evaluate daemon/cycle/refit daemon/cycle/refit/task
	daemon/cycle/tables daemon/dataset daemon/offline daemon/plot daemon/progress daemon/publish daemon/report solver
daemon/offline/fit/fittest
	daemon/dataset daemon/offline daemon/offline/fit daemon/offline/offlinetest daemon/report
daemon/offline/guess
	consumer/event daemon/config daemon/config/strictyaml daemon/dataset daemon/offline daemon/report snapshot/format
daemon/offline/offlinetest
	daemon/config daemon/report
daemon/offline/versions
	consumer/event daemon/cycle/encode daemon/cycle/fitted daemon/cycle/refit/task daemon/diff daemon/export
	daemon/offline daemon/offline/evaluate daemon/report daemon/reproduce snapshot snapshot/format
	snapshot/format/pointer snapshot/publish
daemon/plot
daemon/produce
daemon/progress
daemon/publish
	daemon/build daemon/config daemon/cycle/fitted daemon/report daemon/reproduce snapshot snapshot/format
	snapshot/format/pointer snapshot/objects snapshot/publish solver
daemon/quality
	daemon/report
daemon/report
	daemon/config daemon/config/strictyaml snapshot/format snapshot/publish solver
daemon/reproduce
	daemon/config daemon/cycle/refit daemon/cycle/refit/task snapshot snapshot/durable snapshot/format snapshot/publish
	snapshot/scorer
daemon/scoring
	consumer/event daemon/cluster daemon/config daemon/produce daemon/report daemon/web daemon/web/statuspage snapshot
	snapshot/backoff
daemon/shard
	daemon/produce daemon/report sketch snapshot/backoff
daemon/simulation
daemon/space
	consumer sketch
daemon/statedir
	daemon/config sketch snapshot/durable
daemon/traces
	daemon/build daemon/config daemon/cycle/fitted daemon/ingest
daemon/vectors
	snapshot snapshot/backoff
daemon/web
	configs consumer/event daemon/config/files daemon/curves daemon/cycle/fitted daemon/diff daemon/durations
	daemon/report daemon/web/inference daemon/web/request daemon/web/statuspage daemon/web/tensor snapshot
	snapshot/format snapshot/format/answer snapshot/format/pointer snapshot/metrics snapshot/publish snapshot/scorer
daemon/web/inference
daemon/web/request
	consumer/event daemon/report
daemon/web/statuspage
	consumer/event daemon/curves daemon/quality daemon/report snapshot
daemon/web/tensor
	consumer/event daemon/report daemon/web/inference daemon/web/request snapshot snapshot/format
sketch
	sketch/internal/audit sketch/internal/backup sketch/internal/codec sketch/internal/fault sketch/internal/ledger
	sketch/internal/mirror sketch/internal/outbox sketch/internal/piece sketch/internal/policy sketch/internal/reservoir
	sketch/internal/sample sketch/internal/share sketch/internal/storage sketch/internal/stub sketch/internal/witness
	snapshot/failpoint
sketch/internal/audit
	sketch/internal/codec sketch/internal/fault sketch/internal/ledger sketch/internal/mirror sketch/internal/outbox
	sketch/internal/policy sketch/internal/reservoir sketch/internal/storage sketch/internal/stub
sketch/internal/backup
	sketch/internal/codec sketch/internal/fault sketch/internal/ledger sketch/internal/storage snapshot/durable
sketch/internal/codec
	sketch/internal/fault sketch/internal/ledger sketch/internal/policy sketch/internal/storage
sketch/internal/fault
sketch/internal/ledger
	sketch/internal/fault
sketch/internal/mirror
	sketch/internal/codec sketch/internal/fault sketch/internal/piece sketch/internal/storage
sketch/internal/outbox
	sketch/internal/codec sketch/internal/fault sketch/internal/ledger sketch/internal/storage
sketch/internal/piece
	sketch/internal/codec sketch/internal/ledger sketch/internal/policy sketch/internal/storage
sketch/internal/policy
	sketch/internal/fault sketch/internal/ledger
sketch/internal/reservoir
	sketch/internal/ledger sketch/internal/policy
sketch/internal/sample
	sketch/internal/audit sketch/internal/ledger sketch/internal/policy sketch/internal/storage sketch/internal/stub
sketch/internal/share
	sketch/internal/codec sketch/internal/fault sketch/internal/ledger sketch/internal/mirror sketch/internal/policy
	sketch/internal/reservoir sketch/internal/stub
sketch/internal/storage
	sketch/internal/fault snapshot/failpoint
sketch/internal/stub
	sketch/internal/codec sketch/internal/fault sketch/internal/ledger sketch/internal/policy
sketch/internal/witness
	sketch/internal/codec sketch/internal/fault sketch/internal/ledger sketch/internal/policy snapshot/durable
solver
	solver/internal/convexfm solver/internal/dense solver/internal/eigen solver/internal/full solver/internal/gamma
	solver/internal/linear solver/internal/output solver/internal/parallel solver/loss solver/penalty solver/problem
solver/coordinate
	solver solver/internal/columns solver/internal/dense
solver/internal/columns
solver/internal/convexfm
	solver/internal/columns solver/internal/dense solver/internal/eigen solver/internal/gamma solver/internal/linear
	solver/internal/parallel solver/loss solver/problem solver/ridge
solver/internal/dense
solver/internal/eigen
	solver/internal/dense
solver/internal/full
	solver/internal/dense solver/internal/eigen solver/internal/gamma solver/internal/output solver/internal/parallel
	solver/loss solver/penalty solver/problem
solver/internal/gamma
	solver/internal/dense solver/internal/eigen solver/internal/parallel solver/penalty solver/problem
solver/internal/linear
	solver/internal/dense solver/internal/eigen solver/internal/gamma solver/internal/output solver/internal/parallel
	solver/loss solver/problem
solver/internal/output
	solver/internal/dense solver/internal/eigen solver/internal/parallel solver/loss solver/penalty solver/problem
solver/internal/parallel
solver/loss
	solver/internal/dense
solver/margin
	solver solver/internal/dense solver/internal/parallel
solver/penalty
	solver/internal/dense
solver/posterior
	solver solver/internal/dense
solver/posterior/online
	solver/internal/dense solver/posterior
solver/posterior/posteriortest
	solver
solver/posterior/sweep
	solver solver/internal/dense solver/internal/parallel solver/posterior
solver/problem
	solver/internal/dense solver/internal/eigen solver/loss
solver/ridge
	solver/internal/dense
solver/solvertest
	solver/internal/parallel
`

// roomsMark begins the table in this file.
const roomsMark = "const rooms = `\n"

// TestRooms: each package of daemon, sketch and solver imports what its row says, no more and no less.
func TestRooms(t *testing.T) {
	t.Parallel()
	imports := importsOf(t, "./daemon/...", "./sketch/...", "./solver/...")
	if *updateRooms {
		writeRooms(t, imports)
		return
	}
	allowed := parseRooms(rooms)
	for _, path := range slices.Sorted(maps.Keys(imports)) {
		row, ok := allowed[path]
		if !ok {
			t.Errorf("%s has no row: add it, as\n%s", path, rowOf(path, imports[path]))
			continue
		}
		for _, of := range imports[path] {
			if !slices.Contains(row, of) {
				t.Errorf("%s may not import %s: import what is allowed, or add it to the row in deps_test.go", path, of)
			}
		}
		for _, of := range row {
			if !slices.Contains(imports[path], of) {
				t.Errorf("%s does not import %s any more: take it out of the row in deps_test.go", path, of)
			}
		}
	}
	for path := range allowed {
		if _, ok := imports[path]; !ok {
			t.Errorf("there is no package %s: take its row out of deps_test.go", path)
		}
	}
	if sorted := tableOfRooms(allowed); sorted != strings.TrimPrefix(rooms, "\n") {
		t.Errorf("the table is not sorted, or its lines are not as -rooms writes them")
	}
}

// TestRoomsHaveAnOrder: the rooms of the learning cycle are below the cycle, and import nothing that reads or stores.
func TestRoomsHaveAnOrder(t *testing.T) {
	t.Parallel()
	const cycle = "daemon/cycle"
	below := []string{
		"consumer/event",
		"daemon/choices",
		"daemon/config",
		"daemon/quality",
		"daemon/report",
		"snapshot",
		"snapshot/format",
		"snapshot/scorer",
		"solver",
		"solver/margin",
		"solver/posterior",
		"solver/ridge",
		"solver/posterior/online",
		"solver/posterior/sweep",
	}
	for path, row := range parseRooms(rooms) {
		if path != cycle && !strings.HasPrefix(path, cycle+"/") {
			continue
		}
		for _, of := range row {
			if !strings.HasPrefix(of, cycle+"/") && !slices.Contains(below, of) {
				t.Errorf("%s imports %s; rooms of the learning cycle import each other and %v", path, of, below)
			}
		}
	}
}

// importsOf returns, for each package of the given patterns, the packages of this module that it imports, sorted.
func importsOf(t *testing.T, patterns ...string) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	for _, tags := range []string{"", "failpoint,simulation"} {
		args := append([]string{"-tags=" + tags, "-f", `{{.ImportPath}} {{join .Imports " "}}`}, patterns...)
		for _, line := range goList(t, args...) {
			path := strings.TrimPrefix(line[0], module+"/")
			all := imports[path]
			for _, of := range line[1:] {
				if of, ours := strings.CutPrefix(of, module+"/"); ours && !slices.Contains(all, of) {
					all = append(all, of)
				}
			}
			slices.Sort(all)
			imports[path] = all
		}
	}
	return imports
}

// parseRooms reads a table: a package at the begin of a line, its imports on the lines after it, indented.
func parseRooms(table string) map[string][]string {
	rows, path := map[string][]string{}, ""
	for line := range strings.Lines(strings.TrimPrefix(table, "\n")) {
		words := strings.Fields(line)
		if !strings.HasPrefix(line, "\t") {
			path = words[0]
			rows[path] = nil
			continue
		}
		rows[path] = append(rows[path], words...)
	}
	return rows
}

// rowOf writes a row, in lines of at most 120 characters, of which a tab counts as four.
func rowOf(path string, imports []string) string {
	var b strings.Builder
	b.WriteString(path)
	width := 120
	for _, of := range imports {
		if width += 1 + len(of); width > 120 {
			b.WriteString("\n\t")
			width = 4 + len(of)
		} else {
			b.WriteByte(' ')
		}
		b.WriteString(of)
	}
	b.WriteByte('\n')
	return b.String()
}

// tableOfRooms writes the rows in the order of their paths.
func tableOfRooms(rows map[string][]string) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(rows)) {
		b.WriteString(rowOf(path, rows[path]))
	}
	return b.String()
}

// writeRooms writes the table into this file.
func writeRooms(t *testing.T, rows map[string][]string) {
	t.Helper()
	const name = "deps_test.go"
	before, after, found := bytes.Cut(mustRead(t, name), []byte("\n"+roomsMark))
	_, rest, ended := bytes.Cut(after, []byte("`\n"))
	if !found || !ended {
		t.Fatalf("%s has no table", name)
	}
	content := fmt.Sprintf("%s\n%s%s`\n%s", before, roomsMark, tableOfRooms(rows), rest)
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// goList runs go list at the root of the module and returns the fields of each line.
func goList(t *testing.T, args ...string) (lines [][]string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	command.Dir = ".."
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 0 {
			lines = append(lines, fields)
		}
	}
	return lines
}

// under reports whether path is the package root or below it.
func under(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// TestThirdParties: consumer, sketch, solver and snapshot import neither each other nor daemon, but for leaves of the
// standard library below snapshot. They and the learning cycle bring along no more of other modules than they should.
func TestThirdParties(t *testing.T) {
	t.Parallel()
	const (
		gonum  = "gonum.org/v1/gonum"
		kafka  = "github.com/segmentio/kafka-go"
		franz  = "github.com/twmb/franz-go"
		badger = "github.com/dgraph-io/badger"

		prometheus = "github.com/prometheus"
	)
	rules := []struct {
		root string
		less []string // folders of root with a separate rule
		only []string // if not nil, nothing but these and the standard library, at any depth
		own  []string // packages of this module, besides root, that it may bring along
		not  []string
	}{
		{root: "solver", only: []string{gonum}, not: []string{gonum + "/mat"}}, // it would link a megabyte more
		{root: "snapshot", less: []string{"snapshot/metrics", "snapshot/kafkasource", "snapshot/objects"}, only: []string{}},
		{root: "snapshot/kafkasource", own: []string{"snapshot"}, only: []string{franz, "github.com/klauspost/compress",
			"github.com/pierrec/lz4/v4"}},
		{root: "snapshot/objects", own: []string{"snapshot"}, not: []string{kafka, franz, badger, gonum, prometheus}},
		{root: "snapshot/metrics", own: []string{"snapshot"}, not: []string{kafka, badger, gonum}},
		{root: "sketch", own: []string{"snapshot/durable", "snapshot/failpoint"}, not: []string{kafka, gonum}},
		{root: "consumer", own: []string{"snapshot/backoff", "snapshot/failpoint", "snapshot/objects/awskeys"},
			not: []string{badger, gonum}},
		{root: "consumer/event", not: []string{kafka, badger, prometheus}},
		{root: "daemon/cycle", own: []string{"consumer/event", "daemon", "snapshot", "solver"},
			not: []string{kafka, badger, prometheus}}, // which of them, TestRooms knows
	}
	for _, r := range rules {
		args := []string{"-deps", "-f", `{{if not .Standard}}{{.ImportPath}}{{end}}`}
		for _, p := range goList(t, "./"+r.root+"/...") {
			helpers := strings.HasSuffix(p[0], "test") // what tests of several packages share
			if !helpers && !slices.ContainsFunc(r.less, func(less string) bool { return under(p[0], module+"/"+less) }) {
				args = append(args, p[0])
			}
		}
		for _, d := range goList(t, args...) {
			if under(d[0], module+"/"+r.root) {
				continue
			}
			allowed := r.only == nil && !under(d[0], module)
			for _, o := range r.only {
				allowed = allowed || under(d[0], o)
			}
			for _, o := range r.own {
				allowed = allowed || under(d[0], module+"/"+o)
			}
			for _, n := range r.not {
				allowed = allowed && !under(d[0], n)
			}
			if !allowed {
				t.Errorf("%s brings along %s; besides the standard library it may use %v and %v, not %v",
					r.root, d[0], r.only, r.own, r.not)
			}
		}
	}
}
