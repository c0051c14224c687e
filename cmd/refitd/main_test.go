package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

func TestMain(m *testing.M) {
	daemontest.CollectLate()
	testscript.Main(m, map[string]func(){"refitd": main})
}

// TestScripts runs the command against an embedded broker, whose address is $BROKER. $TESTDATA is the directory of that
// name.
func TestScripts(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("BROKER", broker.ListenAddrs()[0])
			env.Setenv("TESTDATA", testdata)
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != string(tier.Long) {
				return false, fmt.Errorf("no condition %q", name)
			}
			return tier.Asked(tier.Long), nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":         exits,
			"waitrecord":    waitRecord,
			"waitfile":      waitFile,
			"deleterecords": deleteRecords,
			"scores":        scores,
			"fetch":         fetch,
		},
	})
}

// exits runs a command and compares its exit code: exits 2 refitd replay.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		coder, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = string(rune('0' + coder.ExitCode()))
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// waitRecord waits until a topic has a record: waitrecord TOPIC.
func waitRecord(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitrecord TOPIC")
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(ts.Getenv("BROKER")), kgo.ConsumeTopics(args[0]),
		kgo.MetadataMinAge(20*time.Millisecond), kgo.MetadataMaxAge(50*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ts.Check(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for client.PollRecords(ctx, 1).NumRecords() == 0 {
		ts.Check(ctx.Err())
	}
}

// waitFile waits until a file holds a text: waitfile FILE TEXT.
func waitFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitfile FILE TEXT")
	}
	deadline := time.Now().Add(2 * time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if b, err := os.ReadFile(ts.MkAbs(args[0])); err == nil && strings.Contains(string(b), args[1]) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s does not hold %s", args[0], args[1])
		}
		<-tick.C
	}
}

// fetch asks the daemon whose lines a file has, and compares the status: fetch FILE STATUS PATH.
func fetch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: fetch FILE STATUS PATH")
	}
	var ready report.Ready
	ts.Check(json.NewDecoder(strings.NewReader(ts.ReadFile(args[0]))).Decode(&ready))
	res, err := http.Get("http://" + ready.Web + args[2])
	ts.Check(err)
	res.Body.Close()
	if got := strconv.Itoa(res.StatusCode); got != args[1] {
		ts.Fatalf("%s is answered with %s, want %s", args[2], got, args[1])
	}
}

// deleteRecords lets retention take everything below an offset of a partition: deleterecords TOPIC PARTITION OFFSET.
func deleteRecords(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: deleterecords TOPIC PARTITION OFFSET")
	}
	partition, err := strconv.ParseInt(args[1], 10, 32)
	ts.Check(err)
	offset, err := strconv.ParseInt(args[2], 10, 64)
	ts.Check(err)
	client, err := kgo.NewClient(kgo.SeedBrokers(ts.Getenv("BROKER")))
	ts.Check(err)
	defer client.Close()
	cut := kadm.Offsets{}
	cut.Add(kadm.Offset{Topic: args[0], Partition: int32(partition), At: offset})
	answer, err := kadm.NewClient(client).DeleteRecords(context.Background(), cut)
	ts.Check(err)
	ts.Check(answer.Error())
}

// scores checks the lines of a quickstart and runs the score command of its summary: scores FILE.
func scores(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: scores FILE")
	}
	var types []string
	var summary report.QuickstartSummary
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var head struct{ Type string }
		ts.Check(json.Unmarshal([]byte(line), &head))
		if types = append(types, head.Type); head.Type == "summary" {
			ts.Check(json.Unmarshal([]byte(line), &summary))
		}
	}
	count := func(kind string) (n int) {
		for _, t := range types {
			if t == kind {
				n++
			}
		}
		return n
	}
	if last := len(types) - 1; last < 0 || types[0] != "broker" || types[last] != "summary" || count("summary") != 1 ||
		count("drift") != 1 ||
		count("tick") < 3 || count("version") == 0 || int64(count("version")) != summary.Versions ||
		summary.FirstVersionSeconds == nil {
		ts.Fatalf("lines %v, summary %+v", types, summary)
	}
	if p := summary.Progressive; p.N == 0 || p.Window.Published == nil || p.Window.Live == nil ||
		p.Baselines.SGDBias == nil {
		ts.Fatalf("progressive %+v", p)
	}
	command := exec.Command(summary.ScoreArgv[0], summary.ScoreArgv[1:]...)
	command.Dir = ts.Getenv("WORK")
	command.Stdin = strings.NewReader(summary.ScoreStdin)
	out, err := command.Output()
	ts.Check(err)
	first, _, _ := strings.Cut(string(out), "\n")
	var score report.Score
	ts.Check(json.Unmarshal([]byte(first), &score))
	if value, ok := score.Prediction.(float64); !ok || value < 1 || value > 5 || score.Model != summary.Model ||
		len(score.Outputs) != 4 {
		ts.Fatalf("score %s", out)
	}
}

// TestCommandLineIsSound checks the tags of every flag without running a verb.
func TestCommandLineIsSound(t *testing.T) {
	parser := new(cli).parser()
	kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		switch n := node.(type) {
		case *kong.Flag:
			if n.Help == "" {
				t.Errorf("flag --%s has no help", n.Name)
			}
		case *kong.Node:
			if n.Help == "" {
				t.Errorf("command %s has no help", n.Name)
			}
			if n.Type == kong.CommandNode && len(n.Children) == 0 {
				if _, ok := n.Target.Addr().Interface().(interface{ Run(*app) error }); !ok && n.Name != "completion" &&
					n.Name != "man" {
					t.Errorf("command %s has no Run(*app) error", n.FullPath())
				}
			}
		}
		return next(nil)
	})
}

func TestRunInProcess(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), []string{"--help"}, nil, &stdout, &stderr); code != 0 ||
		!strings.Contains(stdout.String(), "\n  check ") {
		t.Errorf("--help: code %d, %s%s", code, stdout.String(), stderr.String())
	}
	for _, help := range [][]string{{"help"}, {"help", "check", "config"}} {
		var as, out bytes.Buffer
		run(context.Background(), append(help[1:len(help):len(help)], "--help"), nil, &as, &stderr)
		if code := run(context.Background(), help, nil, &out, &stderr); code != 0 || out.Len() == 0 ||
			out.String() != as.String() {
			t.Errorf("%v: code %d, %s%s; want %s", help, code, out.String(), stderr.String(), as.String())
		}
	}
	stdout.Reset()
	if code := run(context.Background(), []string{"--json"}, nil, &stdout, &stderr); code != 2 ||
		!strings.HasPrefix(stdout.String(), `{"type":"error","code":"usage"`) {
		t.Errorf("no verb: code %d, %s", code, stdout.String())
	}
	stderr.Reset()
	if code := run(context.Background(), []string{"fit", "--data", "x", "--algorithm", "convexfm"}, nil, &stdout,
		&stderr); code != 2 ||
		!strings.Contains(stderr.String(), `--algorithm must be one of "conditional_gradient","convex_fm"`) {
		t.Errorf("an unknown algorithm: code %d, %s", code, stderr.String())
	}
}

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	newLogger(&out, slog.LevelWarn, "json").Info("quiet")
	newLogger(&out, slog.LevelWarn, "json").Warn("loud")
	newLogger(&out, slog.LevelInfo, "logfmt").Info("plain")
	if text := out.String(); strings.Contains(text, "quiet") || !strings.Contains(text, `"msg":"loud"`) ||
		!strings.Contains(text, "msg=plain") {
		t.Errorf("log %s", text)
	}
}
