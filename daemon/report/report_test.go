package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/config/strictyaml"
)

// lines holds one full value of every type that is emitted.
func lines() map[string]Line {
	offset, version, seconds := int64(3), int64(7), Some(2.5)
	numbers := &Metrics{N: 4, Loss: Some(0.5), RMSE: Some(1), MAE: Some(0.75), NDCG1: Some(0.5), NDCG5: Some(0.25)}
	classes := &Metrics{N: 4, Loss: Some(0.5), Accuracy: Some(0.75)}
	progressive := Progressive{
		N:         9,
		NoModel:   1,
		All:       Scores{numbers, numbers},
		WindowN:   4,
		Window:    Scores{numbers, numbers},
		Baselines: Baselines{GlobalMean: numbers, ItemMean: numbers, SGDBias: numbers},
	}
	halted := "log starts at 9"
	state := State{
		Model:            "m",
		Lineage:          "l",
		ConfigHash:       "sha256:00",
		Format:           1,
		RejectedByReason: map[string]int64{"not_json": 2},
		Partitions: []PartitionState{
			{Topic: "t", Partition: 1, Next: 5, Halted: &halted},
			{Topic: "t", Partition: 2},
		},
	}
	return map[string]Line{
		"ready": Ready{Web: "127.0.0.1:1", Models: []string{"m"}},
		"version": Version{
			Model:        "m",
			Version:      7,
			Kind:         "refit",
			Gap:          Some(1),
			GapRelative:  Some(0.1),
			GapKind:      "estimated",
			Gate:         numbers,
			ChampionGate: numbers,
			Decision:     "promoted",
			Reason:       "better",
		},
		"halt":      Halt{Model: "m", Topic: "t", Partition: 1, Offset: 5, Reason: "gap"},
		"run":       RunSummary{Models: []RunModel{{State: state, Progressive: progressive, Champion: &version}}},
		"broker":    Broker{BootstrapServers: "127.0.0.1:1"},
		"tick":      Tick{Version: &version, Gap: Some(1), SinceRefitSeconds: seconds, Progressive: progressive},
		"drift":     Drift{ElapsedSeconds: 30},
		"recovered": Recovered{AfterSeconds: 3},
		"quickstart": QuickstartSummary{
			FirstVersionSeconds: seconds,
			Progressive:         progressive,
			Store:               "s",
			ScoreArgv:           []string{"refitd", "score", "--store", "a b"},
			ScoreStdin:          `{"user":"o'x"}` + "\n",
		},
		"check": CheckSummary{
			OK:         true,
			Models:     []string{"m"},
			ConfigHash: "sha256:00",
			Memory: &config.Memory{TotalBytes: 1 << 20,
				Parts: map[string]int64{"m.refit": 1 << 20}},
		},
		"mapped": MappedEvent{
			Model:    "m",
			Result:   "rejected",
			Reason:   "missing_field",
			Field:    "user",
			Expected: "a string",
			Got:      "nothing",
			Fields:   []MappedField{{Name: "rating", From: "after.rating", Value: "5"}, {Name: "user", From: "key:id"}},
		},
		"subject": SubjectCheck{Model: "m", Subject: "t-value", Version: 3, Format: "avro", Lost: []string{"user"},
			Unfit: []string{}},
		"init": InitSummary{
			Config: "m.yaml",
			Model:  "m",
			Data:   "m.csv",
			Fields: []InitField{{Name: "user", Use: "categorical"}},
			Next:   []string{"refitd"},
		},
		"step": Step{Lambda: 3, K: 2, Gap: Some(1), GapKind: "estimated", Valid: numbers},
		"fit": FitSummary{
			Status:    "converged",
			Test:      numbers,
			Baselines: Baselines{Linear: numbers},
			Snapshot: &SnapshotRef{Store: "s",
				Model: "m", Version: 1},
		},
		"backtest_tick": BacktestTick{Events: 10000, Progressive: Progressive{Window: Scores{Live: classes}}},
		"backtest": BacktestSummary{
			Progressive: progressive,
			LastTenth:   LastTenth{Live: classes, Baselines: Baselines{Majority: classes, LastLabel: classes}},
		},
		"replay": ReplaySummary{
			Records:      2,
			Acknowledged: 2,
			Partitions:   []ReplayPartition{{Partition: 0, First: &offset, Last: &offset}, {Partition: 1}},
		},
		"eval": EvalSummary{Model: "m", Metrics: *numbers, Seen: numbers, Unseen: numbers},
		"score": Score{
			Line:       1,
			Model:      "m",
			Prediction: Number(3.5),
			Outputs:    []Number{1},
			Unseen:     []string{"user=u9"},
		},
		"invalid": Invalid{Line: 2, Reason: "not_json"},
		"scored":  ScoreSummary{Scored: 1, Invalid: 1},
		"state":   state,
		"snapshot": SnapshotInspection{
			Manifest: map[string]int{"version": 1},
			Aliases:  map[string]int64{"champion": 1},
		},
		"partition": VerifyPartition{Topic: "t", Digest: "ok"},
		"verify":    VerifySummary{OK: true, SampleDigest: "sha256:00"},
		"error":     Error{Code: "usage", Message: "no"},
	}
}

// fields are the names of the command-line contract for the objects of each kind; they are never renamed.
var fields = map[string]string{
	"ready": "web models",
	"version": "model version kind parent status k lambda rows features outputs " +
		"objective form gap gap_relative gap_kind basis_gap basis_gap_relative select gate champion_gate decision reason " +
		"cut payload_digest " +
		"solver stochastic_epochs fista_iterations sweeps evidence warm train_seconds",
	"halt":      "model topic partition offset reason",
	"run":       "seconds events_per_second rss_bytes models",
	"broker":    "bootstrap_servers",
	"tick":      "elapsed_seconds events events_per_second lag version gap gap_kind since_refit_seconds progressive",
	"drift":     "elapsed_seconds",
	"recovered": "after_seconds",
	"quickstart": "first_version_seconds versions drift_seconds recovered_after_seconds progressive store model " +
		"score_argv score_stdin",
	"check": "ok models config_hash memory errors",
	"step":  "lambda k objective gap gap_kind nu valid seconds",
	"fit": "status lambda k units objective form gap gap_relative gap_kind basis_gap basis_gap_relative evidence " +
		"n_train n_valid n_test n_learned " +
		"features outputs valid test baselines seconds seed snapshot dropped absent",
	"backtest_tick": "events seconds version progressive updates_held_back",
	"backtest": "events seconds refit_seconds versions_promoted versions_kept updates_published updates_skipped " +
		"updates_held_back progressive last_tenth " +
		"dropped absent drift_alarms",
	"replay":   "records acknowledged skipped_lines bytes seconds partitions",
	"mapped":   "model result reason field expected got fields",
	"subject":  "model subject version format lost unfit",
	"init":     "config model data format rows task label label_why fields dropped next",
	"eval":     "model version payload_digest metrics seen unseen maybe_learned rejected dropped absent seconds",
	"score":    "line model version prediction outputs probabilities unseen absent",
	"invalid":  "line reason field expected got",
	"scored":   "scored invalid absent",
	"state":    "model lineage config_hash format rows sample_bytes sample_digest rejected_by_reason partitions",
	"snapshot": "manifest aliases files_ok golden_ok signature optimality",
	"partition": "topic partition start checked_from next lost double rejected control aborted holes gap rows digest " +
		"unverifiable halted",
	"verify": "ok lost double gap sample_digest recomputed_digest",
	"error":  "code message",
}

func TestContractNames(t *testing.T) {
	for name, line := range lines() {
		var out bytes.Buffer
		if err := NewEmitter(&out, true).Emit(name, line); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if bytes.Count(out.Bytes(), []byte("\n")) != 1 || !strings.HasPrefix(out.String(), `{"type":"`+name+`"`) {
			t.Errorf("%s: line %q", name, out.String())
		}
		var object map[string]any
		if err := json.Unmarshal(out.Bytes(), &object); err != nil {
			t.Errorf("%s: %v in %s", name, err, out.String())
			continue
		}
		for _, field := range strings.Fields(fields[name]) {
			if _, ok := object[field]; !ok && !(field == "gap_kind" && object["gap"] == nil) {
				t.Errorf("%s has no %s: %s", name, field, out.String())
			}
			delete(object, field)
		}
		if delete(object, "type"); len(object) > 0 {
			t.Errorf("%s: fields %v are not in the list", name, object)
		}
	}
}

func TestNestedContractNames(t *testing.T) {
	for want, v := range map[string]any{
		"n loss rmse mae accuracy ndcg_1 ndcg_5": Metrics{Loss: Some(0), RMSE: Some(0), MAE: Some(0), Accuracy: Some(0),
			NDCG1: Some(0), NDCG5: Some(0)},
		"n": Metrics{},
		"topic partition start next applied rejected control aborted holes gap rows digest halted": PartitionState{},
		"train holdout":        SampleRows{},
		"topic partition next": Cut{},
		"n no_model all window_n window baselines parts": Progressive{},
		"published live": Scores{},
		"global_mean item_mean sgd_bias majority last_label linear": Baselines{&Metrics{}, &Metrics{}, &Metrics{},
			&Metrics{}, &Metrics{}, &Metrics{}},
		"published live baselines":                                   LastTenth{},
		"state progressive versions_promoted versions_kept champion": RunModel{},
		"store model version payload_digest":                         SnapshotRef{},
		"partition first last":                                       ReplayPartition{},
		"line column key message suggestion":                         strictyaml.Problem{Suggestion: "x"},
		"budget_bytes total_bytes typical_bytes parts":               config.Memory{},
	} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if err := json.Unmarshal(b, &object); err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(want)
		slices.Sort(fields)
		if got := slices.Sorted(maps.Keys(object)); !slices.Equal(got, fields) {
			t.Errorf("%T has fields %q, want %q", v, got, fields)
		}
	}
}

// TestText checks that everything but an empty summary says something to people, in whole lines.
func TestText(t *testing.T) {
	for name, line := range lines() {
		var out bytes.Buffer
		if err := NewEmitter(&out, false).Emit(name, line); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if text := out.String(); text == "" || !strings.HasSuffix(text, "\n") || strings.Contains(text, "%!") ||
			strings.Contains(text, "0x") {
			t.Errorf("%s: text %q", name, text)
		}
	}
	var out bytes.Buffer
	e := NewEmitter(&out, false)
	e.Emit("summary", Empty{})
	e.Emit("summary", lines()["eval"])
	const want = `version 0 of m, 0 lines rejected, 0.00 s
                n  loss  rmse  mae   ndcg@1  ndcg@5
all             4  0.5   1     0.75  0.5     0.25
names all seen  4  0.5   1     0.75  0.5     0.25
some unseen     4  0.5   1     0.75  0.5     0.25
`
	if out.String() != want {
		t.Errorf("text\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	lines()["quickstart"].WriteText(&out)
	if want := `echo '{"user":"o'\''x"}' | refitd score --store 'a b'` + "\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("text\n%s\nwant the end %s", out.String(), want)
	}
}

func TestNumbers(t *testing.T) {
	b, err := json.Marshal(
		map[string]any{
			"a": Number(math.NaN()),
			"b": Number(math.Inf(-1)),
			"c": Number(0.1),
			"d": (*Number)(nil),
			"e": []Number{1,
				Number(math.Inf(1))},
		},
	)
	if want := `{"a":null,"b":null,"c":0.1,"d":null,"e":[1,null]}`; err != nil || string(b) != want {
		t.Errorf("%s, %v; want %s", b, err, want)
	}
	var back []Number
	if err := json.Unmarshal([]byte("[null,2]"), &back); err != nil || !math.IsNaN(float64(back[0])) || back[1] != 2 {
		t.Errorf("read back %v, %v", back, err)
	}
	if got := Time(time.Date(2026, 1, 2, 4, 0, 0, 0, time.FixedZone("", 3600))); got != "2026-01-02T03:00:00Z" {
		t.Errorf("time %s", got)
	}
	var out bytes.Buffer
	if err := NewEmitter(&out, true).Emit("summary", Empty{}); err != nil ||
		out.String() != "{\"type\":\"summary\"}\n" {
		t.Errorf("empty summary %q, %v", out.String(), err)
	}
}

func TestExitError(t *testing.T) {
	partition, offset := int32(2), int64(9)
	cause := errors.New("cause")
	err := fmt.Errorf(
		"run: %w",
		&ExitError{
			Code:      ExitHalted,
			Err:       fmt.Errorf("halted: %w", cause),
			Topic:     "t",
			Partition: &partition,
			Offset:    &offset,
		},
	)
	if CodeOf(err) != 4 || !errors.Is(err, cause) {
		t.Errorf("code %d of %v", CodeOf(err), err)
	}
	b, _ := json.Marshal(ErrorOf(err))
	if want := `{"code":"halted","message":"run: halted: cause","topic":"t","partition":2,"offset":9}`; string(
		b) != want {
		t.Errorf("%s, want %s", b, want)
	}
	if CodeOf(nil) != 0 || CodeOf(cause) != ExitNo || CodeOf(Exitf(ExitModel, "no %s", "model")) != 6 ||
		len(exitNames) != ExitModel+1 {
		t.Error("codes of nil, of a plain error, of Exitf or names")
	}
	if (&ExitError{Code: 3}).Error() != "exit code 3" {
		t.Error("text of an error without a cause")
	}
}

// TestEmitterIsSafe checks that lines of several goroutines do not mix, and that write errors come back.
func TestEmitterIsSafe(t *testing.T) {
	var out bytes.Buffer
	e := NewEmitter(&out, true)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				e.Emit("invalid", Invalid{Line: 1, Reason: "not_json"})
			}
		})
	}
	group.Wait()
	for line := range strings.Lines(out.String()) {
		if line != `{"type":"invalid","line":1,"reason":"not_json","field":"","expected":"","got":""}`+"\n" {
			t.Fatalf("line %q", line)
		}
	}
	reader, writer := io.Pipe()
	reader.Close()
	if err := NewEmitter(writer, true).Emit("x", Empty{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v", err)
	}
}

// TestFitOfALinearModel: a fit that has found no basis vector says what its model is.
func TestFitOfALinearModel(t *testing.T) {
	for k, want := range map[int]bool{0: true, 2: false} {
		var text strings.Builder
		if err := (FitSummary{K: k}).WriteText(&text); err != nil ||
			strings.Contains(text.String(), "k 0 (a linear model),") != want {
			t.Errorf("%d basis vectors: %v\n%s", k, err, text.String())
		}
	}
}
