package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// maxRecipeLines is what a recipe may have: a screen.
const maxRecipeLines = 40

// recipes reads the page of recipes, with the addresses of brokers that the test has.
func recipes(t *testing.T) (text, source string) {
	t.Helper()
	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(source, "configs", "docs", "recipes.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"127.0.0.1:9092", "127.0.0.1:9093"} {
		b = bytes.ReplaceAll(b, []byte(address), []byte(freeAddress(t)))
	}
	return string(b), source
}

// TestRecipesAreShort: each recipe is a screen, and the files of Prometheus and Alertmanager name what the rules have.
func TestRecipesAreShort(t *testing.T) {
	text, source := recipes(t)
	sections := strings.Split(text, "\n## ")[1:]
	for _, section := range sections {
		if n := strings.Count(section, "\n") + 1; n > maxRecipeLines {
			title, _, _ := strings.Cut(section, "\n")
			t.Errorf("%s: %d lines, at most %d", title, n, maxRecipeLines)
		}
	}
	if len(sections) < 10 {
		t.Errorf("%d recipes", len(sections))
	}
	var prometheus struct {
		Rules []string `yaml:"rule_files"`
	}
	var alertmanager struct {
		Route struct {
			Receiver string
			GroupBy  []string `yaml:"group_by"`
			Routes   []struct {
				Matchers []string
				Receiver string
			}
		}
		Receivers []struct{ Name string }
	}
	files := blocks(text, "yaml")
	if len(files) != 2 || yaml.Unmarshal([]byte(files[0]), &prometheus) != nil ||
		yaml.Unmarshal([]byte(files[1]), &alertmanager) != nil {
		t.Fatalf("%d files in YAML, or one of them is none: %q", len(files), files)
	}
	rules, err := os.ReadFile(filepath.Join(source, "configs", prometheus.Rules[0]))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(rules, []byte("severity: critical")) ||
		alertmanager.Route.Routes[0].Matchers[0] != `severity="critical"` {
		t.Errorf("the route of critical alerts is %v", alertmanager.Route.Routes)
	}
	names := fmt.Sprint(alertmanager.Receivers)
	for _, receiver := range []string{alertmanager.Route.Receiver, alertmanager.Route.Routes[0].Receiver} {
		if !strings.Contains(names, receiver) {
			t.Errorf("there is no receiver %s among %s", receiver, names)
		}
	}
}

// listensAnywhere lets the daemons of a script listen on free ports.
var listensAnywhere = regexp.MustCompile(`(?m)^storage: `)

// TestRecipes runs every command of the recipes in their order, and the services in Go and Python on what they leave.
func TestRecipes(t *testing.T) {
	tier.NotUnderRace(t)
	text, source := recipes(t)
	address := regexp.MustCompile(`--listen (\S+) --dir broker `).FindStringSubmatch(text)[1]
	const anywhere = `web: {listen_address: "127.0.0.1:0"}`
	dir, script := t.TempDir(), ""
	for i, block := range blocks(text, "sh") {
		block = listensAnywhere.ReplaceAllString(block, anywhere+"\nstorage: ")
		block = regexp.MustCompile(`(?m)^refitd init .*$`).ReplaceAllString(block, "$0\nusual")
		script += fmt.Sprintf("echo '== block %d'\n%s\n", i+1, block)
	}
	// What init has written has the usual addresses.
	script = fmt.Sprintf("usual() { for f in *.yaml; do grep -q ^web: $f || "+
		"sed -i 's/127.0.0.1:9092/%s/; s/^storage: {path: state}/%s\\n&/' $f; done; }\n", address, anywhere) + script
	output := runShell(t, dir, script, `"version":`, `"probabilities":`, "digest ok", "0 rows left", "wrote adverts.yaml",
		"wrote changes.yaml")
	if n := len(regexp.MustCompile(`"name":"i\d*[02468]"`).FindAllString(output, -1)); n != 10 {
		t.Errorf("%d of the ten items for an even user are even:\n%s", n, output)
	}
	store := filepath.Join(dir, "snapshots")
	goService(t, source, store, blocks(text, "go")[0])
	pythonService(t, source, dir, blocks(text, "python")[0])
	streamsService(t, dir, address, blocks(text, "java")[0])
}

// goService builds and starts the service in Go, and asks it.
func goService(t *testing.T, source, store, program string) {
	t.Helper()
	dir := t.TempDir()
	file, binary, address := filepath.Join(dir, "main.go"), filepath.Join(dir, "service"), freeAddress(t)
	if err := os.WriteFile(file, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, file)
	build.Dir = source
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the service in Go: %v\n%s", err, b)
	}
	service := exec.CommandContext(t.Context(), binary, store, address)
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	defer service.Wait()
	defer service.Process.Kill()
	answer := ""
	daemontest.Within(t, daemontest.Patience, "an answer of the service in Go", func() bool {
		res, err := http.Get("http://" + address + "/click?user=u3&ad=a4")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		answer = string(b)
		return res.StatusCode == http.StatusOK
	})
	if !regexp.MustCompile(`^version \d+: 0\.\d{3}\n$`).MatchString(answer) {
		t.Errorf("the service in Go answers %q", answer)
	}
}

// pythonService asks the service in Python by FastAPI's test client.
func pythonService(t *testing.T, source, dir, program string) {
	t.Helper()
	if exec.CommandContext(t.Context(), "python3", "-c", "import fastapi.testclient, numpy").Run() != nil {
		t.Log("the service in Python is not run: python3 has no fastapi, httpx and numpy")
		return
	}
	ask := `
from fastapi.testclient import TestClient
with TestClient(app) as client:
    watcher.wait(60)
    print(client.get("/click", params={"user": "u3", "ad": "a4"}).json())
`
	python := exec.CommandContext(t.Context(), "python3", "-c", program+ask)
	python.Dir, python.Env = dir, append(os.Environ(), "PYTHONPATH="+filepath.Join(source, "snapshot", "python"),
		"PYTHONDONTWRITEBYTECODE=1")
	if b, err := python.CombinedOutput(); err != nil || !bytes.Contains(b, []byte("'probability': 0.")) {
		t.Errorf("the service in Python: %v\n%s", err, b)
	}
}

// streamsService runs the program for Kafka Streams on the topics of the recipes, and reads its answer.
func streamsService(t *testing.T, dir, address, program string) {
	t.Helper()
	modules := os.Getenv("REFITD_JVM") // where Maven has built snapshot/java, as .ci/interchange does
	if modules == "" {
		t.Log("the program for Kafka Streams is not run: REFITD_JVM names no modules")
		return
	}
	target := filepath.Join(modules, "streams", "target")
	if err := os.WriteFile(filepath.Join(dir, "Clicks.java"), []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "sh", "-e", "-c", fmt.Sprintf(`refitd quickstart --broker-only --listen %[1]s --dir broker &
echo '{"user": "u3", "ad": "a4"}' | refitd replay --data - --format lines --bootstrap-servers %[1]s --topic impressions
exec java -cp %[2]s/classes:%[2]s/dependency/* Clicks.java`, address, target))
	shell.Dir, shell.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
	var log bytes.Buffer
	shell.Stdout, shell.Stderr = &log, &log
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	defer shell.Wait()
	defer syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics("answers"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for ctx.Err() == nil { // until there is the broker
		if _, err := kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, "answers"); err == nil {
			break
		}
	}
	var answers []*kgo.Record
	for len(answers) == 0 && ctx.Err() == nil {
		answers = client.PollFetches(ctx).Records()
	}
	if len(answers) == 0 || !regexp.MustCompile(`^\{"model":"clicks","version":\d+,.*"probabilities":\[0\.\d+,0\.\d+\]`).
		Match(answers[0].Value) {
		t.Errorf("the program for Kafka Streams answers %d times: %v\n%s", len(answers), answers, log.String())
	}
}
