package offline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/report"
)

// choicesOf returns choices of users of two tastes, each of which is for half of the items; popular items are as popular in both.
func choicesOf(n int) string {
	r := rand.New(rand.NewPCG(5, 5))
	var b strings.Builder
	for i := range n {
		user := r.IntN(60)
		item := 2*int(40*r.Float64()*r.Float64()) + user%2
		fmt.Fprintf(&b, `{"user":"u%d","item":"i%d","ts":%d}`+"\n", user, item, 1_700_000_000_000+1000*i)
	}
	return b.String()
}

func choosing(t *testing.T) *config.Model {
	t.Helper()
	m := configured(t)
	m.Schema = config.Schema{Task: config.Implicit, Time: "ts", TimeUnit: "ms", Categorical: []string{"user", "item"}}
	m.Train.Loss, m.Train.FoldIn.By, m.Evaluate.BaselineBy, m.Train.EveryEvents = config.Auto, nil, "", 1000
	m.Resolve()
	return m
}

// TestChoices: over choices the versions of a backtest find more of what users choose next than popularity does, the same each time; what is published is
// ranked by eval, and what users have seen is left out there.
func TestChoices(t *testing.T) {
	tier.NotUnderRace(t)
	data, store := writeFile(t, "choices.jsonl", choicesOf(3000)), t.TempDir()
	run := func(store string) []line {
		lines, err := collect(t, func(out *report.Emitter) error {
			return Backtest(t.Context(), BacktestOptions{Model: choosing(t), Data: data, Format: dataset.JSONL, Order: dataset.FileOrder, Store: store,
				Clock: clockOf(t, "events:100"), Now: clock}, out)
		})
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	lines := run(store)
	consumers := last(lines)["consumers"].([]any)
	updates, popular := consumers[0].(line), consumers[1].(line)
	if updates["mode"] != "updates" || popular["mode"] != "popularity" {
		t.Fatalf("consumers %v", consumers)
	}
	if found, want := number(t, updates, "last_tenth.recall_10"), number(t, popular, "last_tenth.recall_10"); found < want+0.1 {
		t.Errorf("recall@10 %g, of popularity %g", found, want)
	}
	if gain, auc := number(t, updates, "last_tenth.ndcg_10"), number(t, updates, "last_tenth.auc"); gain <= number(t, popular, "last_tenth.ndcg_10") || auc < 0.6 {
		t.Errorf("nDCG@10 %g, AUC %g", gain, auc)
	}
	if again := last(run("")); number(t, again, "progressive.all.live.loss") != number(t, last(lines), "progressive.all.live.loss") {
		t.Error("same choices, another loss")
	}
	eval := func(o EvalOptions) (line, error) {
		o.Snapshot, o.Data, o.Format, o.Now = SnapshotRef{Versions: Versions{Store: store, Model: choosing(t).Name}}, data, dataset.JSONL, clock
		lines, err := collect(t, func(out *report.Emitter) error { return Eval(o, out) })
		if err != nil {
			return nil, err
		}
		return last(lines), nil
	}
	held, err := eval(EvalOptions{Rank: "item"})
	if err != nil {
		t.Fatal(err)
	}
	if n, auc := number(t, held, "metrics.n"), number(t, held, "metrics.auc"); n != 60 || auc < 0.8 {
		t.Errorf("AUC %g of %g users", auc, n)
	}
	if n := number(t, held, "maybe_learned"); n < 0.9*float64(strings.Count(choicesOf(3000), "\n")) {
		t.Errorf("%g of the choices that were learned may have been", n)
	}
	if found := number(t, held, "metrics.recall_10"); found < 0.5 || found > 1 {
		t.Errorf("recall@10 %g", found)
	}
	if seen, err := eval(EvalOptions{Rank: "item", Seen: data}); err != nil || number(t, seen, "metrics.n") != 60 {
		t.Errorf("choices that were seen are to be found all the same: %v", err)
	}
	// Choices of the last users against those before, where popularity is known, too, and ranks worse.
	lists := strings.SplitAfter(choicesOf(3000), "\n")
	later, err := eval(EvalOptions{Rank: "item", Seen: writeFile(t, "before.jsonl", strings.Join(lists[:600], ""))})
	if err != nil {
		t.Fatal(err)
	}
	for _, metric := range []string{"recall_10", "ndcg_10", "auc"} {
		if model, popular := number(t, later, "metrics."+metric), number(t, later, "popularity."+metric); !(popular > 0) || model <= popular {
			t.Errorf("%s %g, of popularity %g", metric, model, popular)
		}
	}
	if number(t, later, "popularity.n") != 60 || held["popularity"] != nil {
		t.Errorf("popularity %v, without --seen %v", later["popularity"], held["popularity"])
	}
	explicit := EvalOptions{Rank: "item", Snapshot: SnapshotRef{Versions: Versions{Store: store, Model: choosing(t).Name}}, Data: data, Now: clock,
		Seen: writeFile(t, "seen.csv", "item,user\ni2,u0\n")}
	if lines, err := collect(t, func(out *report.Emitter) error { return Eval(explicit, out) }); err != nil || number(t, last(lines), "metrics.n") != 60 {
		t.Errorf("files of two formats, of which neither was said: %v", err)
	}
	explicit.Format = dataset.JSONL
	if _, err := collect(t, func(out *report.Emitter) error { return Eval(explicit, out) }); err == nil {
		t.Error("a format that was said is not that of all files")
	}
	if _, err := eval(EvalOptions{Rank: "shop"}); err == nil || !strings.Contains(err.Error(), "--rank shop") {
		t.Errorf("an unknown field: %v", err)
	}
	if _, err := eval(EvalOptions{Seen: data}); err == nil {
		t.Error("--seen without --rank")
	}
}

// TestPopularity: names chosen most often come first, those alike by name, and without what was seen; ten at most.
func TestPopularity(t *testing.T) {
	set := &dataset.Set{}
	for i, name := range strings.Split("c b a b c b d e f g h i j k l", " ") {
		set.Examples = append(set.Examples, dataset.Example{Event: event.Event{Categorical: []string{fmt.Sprint("u", i), name}}})
	}
	p := (&rankEvaluation{field: 1}).popularity(set)
	if got, _ := p.first(nil, &ranked{seen: []string{"b", "e"}}); fmt.Sprint(got) != "[c a d f g h i j k l]" {
		t.Errorf("without what was seen %v", got)
	}
	if got, _ := p.first(nil, &ranked{}); fmt.Sprint(got) != "[b c a d e f g h i j]" {
		t.Errorf("%v", got)
	}
	if score := p.scoring(nil); score("b") != 3 || score("z") != 0 {
		t.Errorf("b was chosen %g times, z %g", score("b"), score("z"))
	}
}

// listeners returns choices as people listen to bands: some bands are popular, nobody chooses one twice, and new ones come all along. Nothing else decides.
func listeners(n int) string {
	r := rand.New(rand.NewPCG(9, 9))
	var b strings.Builder
	seen := make(map[string]bool)
	for i := 0; i < n; {
		user, item := r.IntN(400), int(1200*math.Pow(r.Float64(), 3))
		if r.IntN(4) == 0 {
			item = 2000 + i/2 // new, or nearly
		}
		if key := fmt.Sprint(user, item); !seen[key] {
			seen[key] = true
			fmt.Fprintf(&b, `{"user":"u%d","item":"i%d","ts":%d}`+"\n", user, item, 1_700_000_000_000+1000*i)
			i++
		}
	}
	return b.String()
}

// TestListsOfNewNames (K8b): where names are new all along, lists are not of names that were chosen once, and find what popularity finds, updates and deltas
// included; what the published model loses is judged without popularity, with deltas as without.
func TestListsOfNewNames(t *testing.T) {
	tier.NotUnderRace(t)
	m := choosing(t)
	m.Sample.Size = 10_000
	lines, err := collect(t, func(out *report.Emitter) error {
		return Backtest(t.Context(), BacktestOptions{Model: m, Data: writeFile(t, "listeners.jsonl", listeners(6000)), Format: dataset.JSONL,
			Order: dataset.FileOrder, Clock: clockOf(t, "events:100"), Consumer: []string{"updates", "history", "deltas:2s"}, Now: clock}, out)
	})
	if err != nil {
		t.Fatal(err)
	}
	summary := last(lines)
	consumers := summary["consumers"].([]any)
	popular := consumers[len(consumers)-1].(line)
	for _, c := range consumers[:len(consumers)-1] {
		for _, part := range []string{"all", "last_tenth"} {
			found, want := number(t, c.(line), part+".recall_10"), number(t, popular, part+".recall_10")
			if !(want > 0.03) || found < 0.9*want-0.005 {
				t.Errorf("%v, %s: recall@10 %.4f, of popularity %.4f", c.(line)["mode"], part, found, want)
			}
		}
	}
	if loss := number(t, summary, "progressive.all.published.loss"); loss > 0.55 {
		t.Errorf("loss of what is published %.3f, of the share of choices 0.5", loss)
	}
}
