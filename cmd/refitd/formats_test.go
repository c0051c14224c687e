package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/registry/registrytest"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/report"
)

// refitd runs a command, whose exit code has to be as said, and returns what it printed.
func refitd(t *testing.T, code int, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if got := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); got != code {
		t.Fatalf("refitd %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, &stdout, &stderr)
	}
	return stdout.String() + stderr.String()
}

// invalid is how many events of ratingsFile are none.
const invalid = 15

// ratingsFile writes events, of which some are none, and returns the path.
func ratingsFile(t *testing.T, n int) string {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 1))
	var text bytes.Buffer
	for range n {
		text.Write(daemontest.Rating(r))
		text.WriteByte('\n')
	}
	for i := range invalid { // behind the others, whose offsets stay
		fmt.Fprintf(&text, "{\"user\":\"u1\",\"item\":\"i1\",\"rating\":9,\"ts\":%d}\n", 1_700_000_000_000+i)
	}
	path := filepath.Join(t.TempDir(), "ratings.jsonl")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReplayInFormats: a topic that replay wrote in a format, with a registry or with a file, gives the sample that
// JSON gives. What init makes of the topic runs at once and takes every record.
func TestReplayInFormats(t *testing.T) {
	const n, mapped = 400, "mapping: {fields: [{name: item, path: what.item}, {name: user, path: what.who.user}]}, "
	data := ratingsFile(t, n)
	var want string
	for _, c := range []struct {
		name, format string
		registry     bool
		mapping      string
	}{
		{"JSON", "json", false, ""},
		{"Avro", "avro", true, ""},
		{"Avro, a file", "avro", false, ""},
		{"Protobuf", "protobuf", true, ""},
		{"Protobuf, a file", "protobuf", false, ""},
		{"JSON Schema", "json_schema", true, ""}, {"JSON Schema, mapped", "json_schema", true, mapped},
		{"Avro, mapped", "avro", true, mapped}, {"Protobuf, mapped", "protobuf", true, mapped},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, registry := daemontest.New(t), registrytest.New(t)
			file := filepath.Join(b.Dir, "ratings"+map[string]string{"avro": ".avsc", "protobuf": ".proto"}[c.format])
			reader := b.Configure("plain")
			args := []string{"replay", "--config.file", reader, "--data", data, "--bootstrap-servers", b.Addr, "--topic",
				daemontest.Topic}
			from := []string{"--topic", daemontest.Topic, "--bootstrap-servers", b.Addr}
			settings := "group_id: g-reader"
			signIn := filepath.Join(b.Dir, "registry.auth")
			if err := os.WriteFile(signIn, []byte("ann:s3cret\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			registry.SignIn = "ann:s3cret"
			if c.registry {
				settings += ", schema_registry: {url: '" + registry.URL + "', basic_auth_file: registry.auth}"
			}
			edit := "start: earliest, " + c.mapping + "format: " + c.format
			switch {
			case c.format == "json":
				edit = "start: earliest"
			case c.registry:
				args = append(args, "--as", c.format, "--registry", registry.URL, "--registry-basic-auth-file", signIn)
				from = append(from, "--registry", registry.URL, "--registry-basic-auth-file", signIn)
			default:
				args = append(args, "--as", c.format, "--schema-file", file)
				from = append(from, "--schema-file", file)
				edit += ", schema_file: " + filepath.Base(file)
			}
			if c.mapping != "" { // rows of a file have the fields by their own names
				args[2] = b.Configure("reader", "start: earliest", edit, "group_id: g-reader", settings)
				args = append(args, "--format", "csv", "--subject", "other")
				args[4] = inCSV(t, data)
			}
			said := refitd(t, report.ExitDone, args...)
			if c.format != "json" && !strings.Contains(said, fmt.Sprint("reason=label_range lines=", invalid)) {
				t.Errorf("replay says\n%s", said)
			}
			out := b.Run(b.Configure("reader", append(daemontest.Simple, "start: earliest", edit, "group_id: g-reader",
				settings)...))
			s := out.State(t)
			if s.SampleDigest == "" || out.Err != nil || s.Rows.Train+s.Rows.Holdout != n {
				t.Fatalf("%v, %+v", out.Err, s)
			}
			if want == "" {
				want = s.SampleDigest
			}
			if s.SampleDigest != want {
				t.Errorf("sample %s, want that of JSON, %s", s.SampleDigest, want)
			}
			made := filepath.Join(b.Dir, "made.yaml")
			refitd(t, report.ExitDone, append([]string{"init", "--output", made}, from...)...)
			text, err := os.ReadFile(made)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, "web: {listen_address: '127.0.0.1:0'}\n"...)
			if err := os.WriteFile(made, text, 0o600); err != nil {
				t.Fatal(err)
			}
			out = b.Run(made)
			if s := out.State(t); out.Err != nil || s.Rows.Train+s.Rows.Holdout < n ||
				c.format != "json" && len(s.RejectedByReason) > 0 {
				t.Errorf("as init has it: %v, %+v\n%s", out.Err, s, text)
			}
		})
	}
}

// inCSV returns a file with the events of JSON lines.
func inCSV(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := "user,item,rating,ts\n" + strings.NewReplacer(`{"user":"`, "", `","item":"`, ",", `","rating":`, ",", `,"ts":`, ",",
		"}", "").Replace(string(text))
	to := filepath.Join(t.TempDir(), "ratings.csv")
	if err := os.WriteFile(to, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestRegistryFlags: what is wrong with the flags of a registry and of schemas is said by their names.
func TestRegistryFlags(t *testing.T) {
	b := daemontest.New(t)
	plain, data := b.Configure("plain"), ratingsFile(t, 3)
	secret, schema := filepath.Join(b.Dir, "secret"), filepath.Join(b.Dir, "ratings.avsc")
	for _, path := range []string{secret, schema} {
		if err := os.WriteFile(path, []byte("ann:s3cret"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	initOf := []string{"init", "--topic", daemontest.Topic, "--bootstrap-servers", b.Addr, "--output",
		filepath.Join(b.Dir, "o")}
	replay := []string{"replay", "--data", data, "--bootstrap-servers", b.Addr, "--topic", daemontest.Topic}
	as := append(replay[:len(replay):len(replay)], "--config.file", plain, "--as", "avro")
	for _, c := range []struct {
		args []string
		add  string
		want string
	}{
		{initOf, "--registry ftp://r", "--registry"},
		{initOf, "--registry http://r:8081 --registry-basic-auth-file " + secret, "an https URL"},
		{initOf, "--registry https://r:8081 --registry-token-file " + secret, "--registry-token-file"},
		{initOf, "--registry-ca-file x", "--registry"},
		{initOf, "--registry https://r:8081 --registry-ca-file none.pem", "--registry-ca-file"},
		{initOf, "--schema-file none.avsc", "--schema-file"},
		{initOf, "--schema-file " + data, "a file called .avsc"},
		{[]string{"init", "--data", data}, "--registry http://r:8081", "are those of --topic"},
		{replay, "--as avro --registry http://r:8081", "--config.file"},
		{replay, "--as avro", "--config.file"},
		{replay, "--registry http://r:8081", "--as"},
		{replay, "--subject s", "--as"},
		{as, "", "--registry"},
		{as, "--registry http://r:8081 --schema-file x.avsc", "give it or --registry"},
		{as, "--schema-file x.proto", ".avsc"},
		{as, "--schema-file " + schema, "has another schema"},
		{as, "--registry http://127.0.0.1:1", "register the schema under ratings-value"},
	} {
		args := append(c.args[:len(c.args):len(c.args)], strings.Fields(c.add)...)
		if said := refitd(t, report.ExitUsage, args...); !strings.Contains(said, c.want) || strings.Contains(said, "s3cret") {
			t.Errorf("%s: %s, want %q", c.add, said, c.want)
		}
	}
}
