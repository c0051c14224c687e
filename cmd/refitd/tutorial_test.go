package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// blocks returns the blocks of code of a Markdown text in one language, in their order.
func blocks(text, language string) (list []string) {
	for {
		_, rest, found := strings.Cut(text, "\n```"+language+"\n")
		if !found {
			return list
		}
		block, after, _ := strings.Cut(rest, "\n```\n")
		list, text = append(list, block), "\n"+after
	}
}

// freeAddress returns an address of this machine with a port that nobody listens on, as far as one can know.
func freeAddress(t *testing.T) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	return free.Addr().String()
}

// runShell runs commands of a document in a directory, and ends what they have started in the background. Their
// output has to have some texts.
func runShell(t *testing.T, dir, script string, wanted ...string) (output string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", "trap 'trap \"\" TERM; kill 0; wait' EXIT\n"+script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // kill 0 ends what the script has started, and nothing else
	var out bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	cmd.WaitDelay = time.Minute // of a broker that outlives the shell
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range wanted {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in what the commands print:\n%s", want, out.String())
		}
	}
	return out.String()
}

// TestTutorial runs every command of the tutorial, and its consumers, in their order: the broker of the text on a free
// port.
func TestTutorial(t *testing.T) {
	tier.NotUnderRace(t)
	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(source, "configs", "docs", "tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	text, dir := strings.ReplaceAll(string(b), "127.0.0.1:9092", address), t.TempDir()
	shell := blocks(text, "sh")
	if len(shell) < 6 {
		t.Fatalf("%d blocks of commands", len(shell))
	}
	script := ""
	for i, block := range shell {
		script += fmt.Sprintf("echo '== block %d'\n%s\n", i+1, block)
		if strings.Contains(block, "refitd init --data") { // which writes the usual addresses
			script += fmt.Sprintf(
				`sed -i 's/127.0.0.1:9092/%s/; s/^storage:.*/&\nweb: {listen_address: "127.0.0.1:0"}/' visits.yaml`+"\n",
				address,
			)
		}
	}
	output := runShell(t, dir, script, "wrote visits.yaml", "5400", "last tenth", "wrote of-topic.yaml",
		"seconds since 1970", "\nfiring: ", "\nresolved: ")
	if strings.Contains(output, "may have learned") {
		t.Error("the tutorial judges the model on events that it has learned")
	}
	if st, err := os.Stat(filepath.Join(dir, "loss.svg")); err != nil || st.Size() == 0 {
		t.Errorf("no plot: %v", err)
	}
	consumer := filepath.Join(dir, "main.go")
	if err := os.WriteFile(consumer, []byte(blocks(text, "go")[0]), 0o644); err != nil {
		t.Fatal(err)
	}
	goRun := exec.CommandContext(t.Context(), "go", "run", consumer, filepath.Join(dir, "snapshots"))
	goRun.Dir = source
	checkShops(t, "Go", goRun)
	if exec.CommandContext(t.Context(), "python3", "-c", "import numpy").Run() != nil {
		t.Log("the consumer in Python is not run: there is no python3 with numpy")
		return
	}
	python := exec.CommandContext(t.Context(), "python3", "-c", blocks(text, "python")[0])
	python.Dir, python.Env = dir, append(os.Environ(), "PYTHONPATH="+filepath.Join(source, "snapshot", "python"),
		"PYTHONDONTWRITEBYTECODE=1")
	checkShops(t, "Python", python)
}

// checkShops runs a consumer: the three shops that it names for an even user are even.
func checkShops(t *testing.T, language string, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", language, err, out)
		return
	}
	even := 0
	for shop := range 40 {
		name := fmt.Sprintf("s%d", shop)
		for _, word := range strings.FieldsFunc(string(out), func(r rune) bool {
			return !('a' <= r && r <= 'z' || '0' <= r &&
				r <= '9')
		}) {
			if word == name && shop%2 == 0 {
				even++
			} else if word == name {
				t.Errorf("%s names %s", language, name)
			}
		}
	}
	if even < 3 {
		t.Errorf("%s names %d even shops:\n%s", language, even, out)
	}
}
