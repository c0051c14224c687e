package daemon_test

import (
	"encoding/json"
	"testing"

	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/web/statuspage"
)

// TestRecallOfChoices: of a model whose events are choices the page shows how lists do that consumers would have got,
// now and over time.
func TestRecallOfChoices(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(17, 2000)
	d, stop := b.Start(
		b.Configure(
			"recall",
			append(
				[]string{
					"task: ordinal, label: rating, levels: 5",
					"task: implicit",
					"every_events: 0",
					"every_events: 500",
				},
				daemontest.Simple...)...),
	)
	defer stop()
	path := "http://" + d.Addr() + "/v1/models/ratings"
	seed := uint64(18)
	ask := func(path string, into any) {
		_, body := daemontest.Get(t, path)
		if err := json.Unmarshal([]byte(body), into); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
	}
	daemontest.Within(t, daemontest.Patience, "choices that were looked at", func() bool {
		b.ProduceRatings(seed, 20)
		seed++
		var state struct{ Ranking *statuspage.RankingStatus }
		ask(path+"/state", &state)
		if r := state.Ranking; r != nil && r.Published.N > 20 {
			if r.Published.Recall10 == nil || *r.Published.Recall10 < 0 || *r.Published.Recall10 > 1 ||
				r.Popularity.N != r.Published.N {
				t.Fatalf("%+v", r)
			}
			return true
		}
		return false
	})
	daemontest.Within(t, daemontest.Patience, "a point of the curve", func() bool {
		var c curves.Curves
		ask(path+"/curves", &c)
		return len(c.Recall10["published"]) > 0 && len(c.Recall10["popularity"]) == len(c.Recall10["published"])
	})
}
