package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"refitd": main})
}

// TestScripts runs the command against an embedded broker, whose address is $BROKER.
func TestScripts(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("BROKER", broker.ListenAddrs()[0])
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "waitrecord": waitRecord},
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
	client, err := kgo.NewClient(kgo.SeedBrokers(ts.Getenv("BROKER")), kgo.ConsumeTopics(args[0]), kgo.MetadataMinAge(20*time.Millisecond),
		kgo.MetadataMaxAge(50*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ts.Check(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for client.PollRecords(ctx, 1).NumRecords() == 0 {
		ts.Check(ctx.Err())
	}
}

// TestCommandLineIsSound checks the tags of every flag without running a verb.
func TestCommandLineIsSound(t *testing.T) {
	parser, err := kong.New(new(cli), kong.Vars{"version": "v"})
	if err != nil {
		t.Fatal(err)
	}
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
				if _, ok := n.Target.Addr().Interface().(interface{ Run(*app) error }); !ok {
					t.Errorf("command %s has no Run(*app) error", n.FullPath())
				}
			}
		}
		return next(nil)
	})
}

func TestRunInProcess(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), []string{"--help"}, nil, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), "check config") {
		t.Errorf("--help: code %d, %s%s", code, stdout.String(), stderr.String())
	}
	stdout.Reset()
	if code := run(context.Background(), []string{"--json"}, nil, &stdout, &stderr); code != 2 || !strings.HasPrefix(stdout.String(), `{"type":"error","code":"usage"`) {
		t.Errorf("no verb: code %d, %s", code, stdout.String())
	}
}

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	newLogger(&out, slog.LevelWarn, "json").Info("quiet")
	newLogger(&out, slog.LevelWarn, "json").Warn("loud")
	newLogger(&out, slog.LevelInfo, "logfmt").Info("plain")
	if text := out.String(); strings.Contains(text, "quiet") || !strings.Contains(text, `"msg":"loud"`) || !strings.Contains(text, "msg=plain") {
		t.Errorf("log %s", text)
	}
}
