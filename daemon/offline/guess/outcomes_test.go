package guess

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// shownAndBought are lines of events, and of what came of 3 of 10 of them within hours, 5 times in 100 twice. Of events
// the number of the item is small, as that of the shop in outcomes is.
func shownAndBought(line func(values ...any) string, of func(values ...any) string) (shown, bought string) {
	r := rand.New(rand.NewPCG(1, 2))
	var a, b strings.Builder
	for i := range 2000 {
		at := int64(1_700_000_000 + i*30)
		fmt.Fprintln(&a, line(i, r.IntN(30), r.IntN(20), at))
		if r.IntN(10) > 2 {
			continue
		}
		for range 1 + r.IntN(20)/19 {
			fmt.Fprintln(&b, of(i, r.IntN(40), 1+r.IntN(5000), at+int64(1200*math.Exp(r.NormFloat64()))))
		}
	}
	return a.String(), b.String()
}

// TestInitOutcomes: of two files it is found which column of one names rows of the other, what they are worth, and how
// long after its event an outcome comes. Files that do not join are refused with the reason.
func TestInitOutcomes(t *testing.T) {
	shown, clicked := shownAndBought(
		func(v ...any) string { return fmt.Sprintf("%d,u%d,i%d,%d", v...) },
		func(v ...any) string { return fmt.Sprintf("%d,%d,%[4]d", v...) })
	shown, clicked = "id,user,item,ts\n"+shown, "impression,shop,at\n"+clicked
	of := func(name, text string) Options { return Options{Outcomes: offlinetest.WriteFile(t, name, text)} }
	line, m := guesses(t, "shown.csv", shown, of("clicks.csv", clicked))
	o := &m.Input.Outcomes
	if o.Key != (config.OutcomeKey{Impression: "id", Outcome: "impression"}) || o.Time != "at" || o.Label != "" ||
		o.Topics[0] != "clicks" || o.Reward != config.RewardFirst || m.Schema.Task != "binary" ||
		m.Schema.Label != "clicks" || m.Schema.Time != "ts" || m.Schema.TimeUnit != "s" ||
		fmt.Sprint(m.Schema.Categorical) != "[user item]" {
		t.Errorf("%+v of %+v", o, m.Schema)
	}
	if w := o.Window.Std(); w != 6*time.Hour { // 99 % of e^N·20 min are within 3.4 h
		t.Errorf("window %v", w)
	}
	said := line["outcomes"].(offlinetest.Line)
	if why := fmt.Sprint(said["why"], said["window_why"], line["next"]); said["matched"].(float64) < 550 ||
		!strings.Contains(why, "are among those of \"id\"") || !strings.Contains(why, "99 % of ") ||
		!strings.Contains(why, "--outcomes") {
		t.Errorf("%+v, %v", said, line["next"])
	}

	events, bought := shownAndBought(
		func(v ...any) string {
			return fmt.Sprintf(`{"request_id":"r%d","user":"u%d","item":"i%d","ts":%d000}`, v...)
		},
		func(v ...any) string {
			return fmt.Sprintf(`{"of":"r%d","shop":%d,"amount":%d.5,"ts":%d000}`, v...)
		})
	_, m = guesses(t, "shown.jsonl", events, of("bought.jsonl", bought))
	if o := &m.Input.Outcomes; o.Key.Outcome != "of" || o.Label != "amount" || o.Reward != config.RewardSum ||
		o.Default != 0 || m.Schema.Task != "regression" || m.Schema.Identity != "request_id" || o.Time != "ts" {
		t.Errorf("%+v of %+v", o, m.Schema)
	}

	records := func(text string) func() (*Sample, error) {
		s := new(Sample)
		for line := range strings.Lines(text) {
			s.Records = append(s.Records, offline.Record{Offset: int64(len(s.Records)), Value: []byte(line)})
		}
		return func() (*Sample, error) { return s, nil }
	}
	topics := Options{Topic: "shown", OutcomesTopic: "bought", BootstrapServers: []string{"b:1"}, Look: records(events),
		LookOutcomes: records(bought), Output: filepath.Join(t.TempDir(), "t.yaml")}
	if _, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Init(topics, out) }); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(topics.Output)
	if err != nil {
		t.Fatal(err)
	}
	if o := &c.Models[0].Input.Outcomes; o.Topics[0] != "bought" || o.Label != "amount" {
		t.Errorf("of topics: %+v", o)
	}

	// Both have a price: the label is called otherwise. A name that means something in YAML is quoted.
	for name, label := range map[string]string{"item": "item_label", "price #1": "price #1"} {
		o := of("bought.csv", strings.Replace(clicked, "shop", name, 1))
		o.Label = name
		_, m = guesses(t, "shown.csv", shown, o)
		if m.Input.Outcomes.Label != name || m.Schema.Label != label {
			t.Errorf("%+v of %+v", m.Input.Outcomes, m.Schema)
		}
	}

	// Of topics the times of records count, but for both.
	topics.LookOutcomes = records(strings.ReplaceAll(strings.ReplaceAll(bought, "}", `"}`), `"ts":`, `"at":"x`))
	_, err = offlinetest.Collect(t, func(out *report.Emitter) error { return Init(topics, out) })
	offlinetest.WantExit(t, err, report.ExitUsage, "a column of times")
	for _, bad := range []struct {
		data, outcomes, label, key string
		want                       string
	}{
		{clicked, shown, "", "--outcomes", "exchange both files"},
		{shown, strings.ReplaceAll(clicked, "\n", "\nx"), "", "--outcomes", "no column of "},
		{shown, clicked, "price", "--label", "no column \"price\""},
		{shown, strings.ReplaceAll(clicked, ",17", ",x"), "", "--outcomes", "a column of times"},
		{strings.ReplaceAll(shown, ",17", ",x"), clicked, "", "--outcomes", "a column of times"},
	} {
		o := of("of.csv", bad.outcomes)
		o.Data, o.Label = offlinetest.WriteFile(t, "a.csv", bad.data), bad.label
		o.Output = filepath.Join(t.TempDir(), "no.yaml")
		_, err := offlinetest.Collect(t, func(out *report.Emitter) error { return Init(o, out) })
		offlinetest.WantExit(t, err, report.ExitUsage, bad.want)
	}
	o2 := of("c.csv", clicked)
	o2.Topic = "t"
	_, err = offlinetest.Collect(t, func(out *report.Emitter) error { return Init(o2, out) })
	offlinetest.WantExit(t, err, report.ExitUsage)
}
