package backtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/evaluate"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// choicesOf returns choices of users of two tastes, each of which is for half of the items; popular items are as
// popular in both.
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
	m := offlinetest.Configured(t)
	m.Schema = config.Schema{Task: config.Implicit, Time: "ts", TimeUnit: "ms", Categorical: []string{"user", "item"}}
	m.Train.Loss, m.Train.FoldIn.By, m.Evaluate.BaselineBy, m.Train.EveryEvents = config.Auto, nil, "", 1000
	m.Resolve()
	return m
}

// TestChoices: over choices the versions of a backtest find more of what users choose next than popularity does, the
// same each time; what is published is ranked by eval, and what users have seen is left out there.
func TestChoices(t *testing.T) {
	tier.NotUnderRace(t)
	data, store := offlinetest.WriteFile(t, "choices.jsonl", choicesOf(3000)), t.TempDir()
	run := func(store string) []offlinetest.Line {
		lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
			return Run(
				t.Context(),
				Options{Model: choosing(t), Data: data, Format: dataset.JSONL, Order: dataset.FileOrder, Store: store,
					Clock: clockOf(t, "events:100"), Now: offlinetest.Clock},
				out,
			)
		})
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	lines := run(store)
	consumers := offlinetest.Last(lines)["consumers"].([]any)
	updates, popular := consumers[0].(offlinetest.Line), consumers[1].(offlinetest.Line)
	if updates["mode"] != "updates" || popular["mode"] != "popularity" {
		t.Fatalf("consumers %v", consumers)
	}
	if found, want := offlinetest.Number(t, updates, "last_tenth.recall_10"), offlinetest.Number(t, popular,
		"last_tenth.recall_10"); found < want+0.1 {
		t.Errorf("recall@10 %g, of popularity %g", found, want)
	}
	if gain, auc := offlinetest.Number(t, updates, "last_tenth.ndcg_10"), offlinetest.Number(t, updates,
		"last_tenth.auc"); gain <= offlinetest.Number(t, popular, "last_tenth.ndcg_10") ||
		auc < 0.6 {
		t.Errorf("nDCG@10 %g, AUC %g", gain, auc)
	}
	if again := offlinetest.Last(run("")); offlinetest.Number(t, again,
		"progressive.all.live.loss") != offlinetest.Number(t, offlinetest.Last(lines), "progressive.all.live.loss") {
		t.Error("same choices, another loss")
	}
	eval := func(o evaluate.Options) (offlinetest.Line, error) {
		o.Snapshot, o.Data, o.Format, o.Now = offline.SnapshotRef{
			Versions: offline.Versions{Store: store, Model: choosing(t).Name},
		}, data, dataset.JSONL, offlinetest.Clock
		lines, err := offlinetest.Collect(t, func(out *report.Emitter) error { return evaluate.Run(o, out) })
		if err != nil {
			return nil, err
		}
		return offlinetest.Last(lines), nil
	}
	held, err := eval(evaluate.Options{Rank: "item"})
	if err != nil {
		t.Fatal(err)
	}
	if n, auc := offlinetest.Number(t, held, "metrics.n"), offlinetest.Number(t, held, "metrics.auc"); n != 60 ||
		auc < 0.8 {
		t.Errorf("AUC %g of %g users", auc, n)
	}
	if n := offlinetest.Number(t, held, "maybe_learned"); n < 0.9*float64(strings.Count(choicesOf(3000), "\n")) {
		t.Errorf("%g of the choices that were learned may have been", n)
	}
	if found := offlinetest.Number(t, held, "metrics.recall_10"); found < 0.5 || found > 1 {
		t.Errorf("recall@10 %g", found)
	}
	if seen, err := eval(evaluate.Options{Rank: "item", Seen: data}); err != nil ||
		offlinetest.Number(t, seen, "metrics.n") != 60 {
		t.Errorf("choices that were seen are to be found all the same: %v", err)
	}
	// Choices of the last users against those before, where popularity is known, too, and ranks worse.
	lists := strings.SplitAfter(choicesOf(3000), "\n")
	later, err := eval(
		evaluate.Options{Rank: "item", Seen: offlinetest.WriteFile(t, "before.jsonl", strings.Join(lists[:600], ""))})
	if err != nil {
		t.Fatal(err)
	}
	for _, metric := range []string{"recall_10", "ndcg_10", "auc"} {
		if model, popular := offlinetest.Number(t, later, "metrics."+metric), offlinetest.Number(t, later, "popularity."+
			metric); !(popular > 0) ||
			model <= popular {
			t.Errorf("%s %g, of popularity %g", metric, model, popular)
		}
	}
	if offlinetest.Number(t, later, "popularity.n") != 60 || held["popularity"] != nil {
		t.Errorf("popularity %v, without --seen %v", later["popularity"], held["popularity"])
	}
	explicit := evaluate.Options{
		Rank:     "item",
		Snapshot: offline.SnapshotRef{Versions: offline.Versions{Store: store, Model: choosing(t).Name}},
		Data:     data,
		Now:      offlinetest.Clock,
		Seen:     offlinetest.WriteFile(t, "seen.csv", "item,user\ni2,u0\n"),
	}
	if lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return evaluate.Run(explicit,
			out)
	}); err != nil ||
		offlinetest.Number(t, offlinetest.Last(lines), "metrics.n") != 60 {
		t.Errorf("files of two formats, of which neither was said: %v", err)
	}
	explicit.Format = dataset.JSONL
	if _, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return evaluate.Run(explicit,
			out)
	}); err == nil {
		t.Error("a format that was said is not that of all files")
	}
	if _, err := eval(evaluate.Options{Rank: "shop"}); err == nil || !strings.Contains(err.Error(), "--rank shop") {
		t.Errorf("an unknown field: %v", err)
	}
	if _, err := eval(evaluate.Options{Seen: data}); err == nil {
		t.Error("--seen without --rank")
	}
}

// listeners returns choices as people listen to bands: some bands are popular, nobody chooses one twice, and new ones
// come all along. Nothing else decides.
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

// TestListsOfNewNames (K8b): where names are new all along, lists are not of names that were chosen once, and find what
// popularity finds, updates and deltas included; what the published model loses is judged without popularity, with
// deltas as without.
func TestListsOfNewNames(t *testing.T) {
	tier.NotUnderRace(t)
	m := choosing(t)
	m.Sample.Size = 10_000
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return Run(
			t.Context(),
			Options{Model: m, Data: offlinetest.WriteFile(t, "listeners.jsonl", listeners(6000)), Format: dataset.JSONL,
				Order: dataset.FileOrder, Clock: clockOf(t, "events:100"), Consumer: []string{"updates", "history", "deltas:2s"},
				Now: offlinetest.Clock},
			out,
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	summary := offlinetest.Last(lines)
	consumers := summary["consumers"].([]any)
	popular := consumers[len(consumers)-1].(offlinetest.Line)
	for _, c := range consumers[:len(consumers)-1] {
		for _, part := range []string{"all", "last_tenth"} {
			found, want := offlinetest.Number(t, c.(offlinetest.Line), part+".recall_10"), offlinetest.Number(t,
				popular, part+".recall_10")
			if !(want > 0.03) || found < 0.9*want-0.005 {
				t.Errorf("%v, %s: recall@10 %.4f, of popularity %.4f", c.(offlinetest.Line)["mode"], part, found, want)
			}
		}
	}
	if loss := offlinetest.Number(t, summary, "progressive.all.published.loss"); loss > 0.55 {
		t.Errorf("loss of what is published %.3f, of the share of choices 0.5", loss)
	}
}
