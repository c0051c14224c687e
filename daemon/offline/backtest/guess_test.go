package backtest

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline/guess"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// TestInitOfChoices: a log of choices gets task: implicit, with what its kinds of event weigh; what may be a label is
// asked for.
func TestInitOfChoices(t *testing.T) {
	tier.NotUnderRace(t)
	rows := func(header, row string) string {
		r, b := rand.New(rand.NewPCG(1, 2)), strings.Builder{}
		fmt.Fprintln(&b, header)
		for i := range 600 {
			u := r.IntN(30)
			row := strings.NewReplacer("USER", fmt.Sprint(u), "ITEM", fmt.Sprint(5*(u%4)+r.IntN(5)), "TIME",
				fmt.Sprint(1_700_000_000_000+int64(i)*1000),
				"KIND", []string{"view", "view",
					"buy"}[r.IntN(3)], "FLAG", fmt.Sprint(r.IntN(2)), "ROW", fmt.Sprint(i)).Replace(row)
			fmt.Fprintln(&b, row)
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		header, row, of, label, task string
	}{
		"choices":     {"user,item,ts", "uUSER,iITEM,TIME", "item", "", ""},
		"kinds":       {"timestamp,visitorid,event,itemid", "TIME,USER,KIND,ITEM", "itemid", "event", ""},
		"other names": {"who,bought", "aUSER,bITEM", "bought", "", "implicit"},
		"a counter":   {"row,userId,songId", "ROW,USER,ITEM", "songId", "", ""},
	} {
		text := rows(c.header, c.row)
		_, m := guessesOf(t, "x.csv", text, guess.Options{Task: c.task})
		if s := m.Schema; s.Task != config.Implicit || m.Input.Negatives.Of != c.of || s.Label != c.label ||
			(len(s.EventWeights) == 2) != (c.label != "") ||
			len(s.Categorical) != 2 || len(s.Numeric) > 0 {
			t.Errorf("%s: %+v of %+v", name, s, m.Input.Negatives)
		}
		lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
			return Run(
				t.Context(),
				Options{Model: m, Data: offlinetest.WriteFile(t, "x.csv", text), Order: dataset.FileOrder,
					Clock: clockOf(t, "events:100"),
					Now:   offlinetest.Clock},
				out,
			)
		})
		if err != nil || offlinetest.Number(t, offlinetest.Last(lines), "events") != 600 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		o           guess.Options
		header, row string
		words       []string
	}{
		"a column with two values": {guess.Options{}, "user,item,bought", "uUSER,iITEM,FLAG",
			[]string{"--label NAME, one of user, item, bought", "--task implicit"}},
		"numbers": {guess.Options{}, "user,item,plays", "uUSER,iITEM,USER", []string{"--label NAME",
			"--task implicit"}},
		"no such column": {guess.Options{Label: "buyed"}, "user,item,price,bought", "uUSER,iITEM,ROW,FLAG",
			[]string{`"buyed" is not a column`, `nearest name is "bought"`}},
		"nothing is chosen": {guess.Options{Task: "implicit"}, "user,price", "uUSER,0.FLAG", []string{"who chose",
			"there are user, price"}},
		"a label and choices": {guess.Options{Task: "implicit", Label: "item"}, "user,item", "uUSER,iITEM",
			[]string{"leave --label out"}},
	} {
		c.o.Data, c.o.Output = offlinetest.WriteFile(t, "x.csv", rows(c.header, c.row)), filepath.Join(t.TempDir(),
			"x.yaml")
		_, err := offlinetest.Collect(t, func(out *report.Emitter) error { return guess.Init(c.o, out) })
		t.Run(name, func(t *testing.T) { offlinetest.WantExit(t, err, report.ExitUsage, c.words...) })
	}
}
