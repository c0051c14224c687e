package quality

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"strconv"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

func near(t *testing.T, name string, got *report.Number, want float64) {
	t.Helper()
	if got == nil || math.Abs(float64(*got)-want) > 1e-12*(1+math.Abs(want)) {
		t.Errorf("%s = %v, want %g", name, got, want)
	}
}

func TestNumberAccumulator(t *testing.T) {
	a := NewNumberAccumulator(1, 5)
	a.AddNumber(0.5, 7, 4)  // clipped to 5
	a.AddNumber(0.25, 0, 1) // clipped to 1
	a.AddNumber(0.75, 3.5, 2)
	m := a.Metrics()
	near(t, "loss", m.Loss, 0.5)
	near(t, "rmse", m.RMSE, math.Sqrt((1+0+2.25)/3))
	near(t, "mae", m.MAE, 2.5/3)
	if m.N != 3 || m.Accuracy != nil || m.NDCG1 != nil {
		t.Errorf("metrics %+v", m)
	}
	free := NewNumberAccumulator(0, 0)
	free.AddNumber(1, 7, 4)
	near(t, "rmse without range", free.Metrics().RMSE, 3)
	if m := NewNumberAccumulator(1, 5).Metrics(); !reflect.DeepEqual(m, report.Metrics{}) {
		t.Errorf("metrics of nothing %+v", m)
	}
}

func TestClassAccumulator(t *testing.T) {
	a := NewClassAccumulator()
	for i := range 8 {
		a.AddClass(float64(i), i < 6)
	}
	m := a.Metrics()
	near(t, "accuracy", m.Accuracy, 0.75)
	near(t, "loss", m.Loss, 3.5)
	if m.RMSE != nil || a.n != 8 {
		t.Errorf("metrics %+v", m)
	}
}

func TestSum(t *testing.T) {
	var s sum
	for range 1000 {
		s.add(1e16)
		s.add(1)
		s.add(-1e16)
	}
	if s.value() != 1000 {
		t.Errorf("compensated sum %g, want 1000", s.value())
	}
	s.add(math.Inf(1))
	if !math.IsInf(s.value(), 1) {
		t.Errorf("sum with +Inf is %g", s.value())
	}
	s.add(math.NaN())
	if !math.IsNaN(s.value()) {
		t.Errorf("sum with NaN is %g", s.value())
	}
}

// TestRankingGolden compares nDCG with the reference values.
func TestRankingGolden(t *testing.T) {
	var golden struct {
		Ranking []struct {
			Users   []int
			Ratings []float64
			Scores  []float64
			NDCG    map[string]float64 `json:"ndcg"`
		}
	}
	path := tier.Shared(t, "golden", "ordinal.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Ranking) == 0 {
		t.Fatal("no ranking in the golden file")
	}
	for i, c := range golden.Ranking {
		r := NewRanking()
		for j, u := range c.Users {
			r.Add(strconv.Itoa(u), c.Scores[j], c.Ratings[j])
		}
		for _, k := range []int{1, 3, 5} {
			near(t, fmt.Sprintf("case %d nDCG@%d", i, k), report.Some(r.NDCG(k)), c.NDCG[fmt.Sprintf("exp@%d", k)])
		}
		var m report.Metrics
		r.AddTo(&m)
		near(t, "ndcg_1", m.NDCG1, c.NDCG["exp@1"])
		near(t, "ndcg_5", m.NDCG5, c.NDCG["exp@5"])
	}
}

func TestRankingTies(t *testing.T) {
	r := NewRanking()
	r.Add("u", 1, 2)
	r.Add("u", 1, 5)
	near(t, "first in the file first", report.Some(r.NDCG(1)), 3.0/31)
	r.Add("v", 0, 0) // without gain every order is ideal
	near(t, "no gain", report.Some(r.NDCG(1)), (3.0/31+1)/2)
	if m := (report.Metrics{}); !math.IsNaN(NewRanking().NDCG(5)) {
		t.Error("nDCG of nothing is a number")
	} else if NewRanking().AddTo(&m); m.NDCG1 != nil {
		t.Error("nDCG of nothing is reported")
	}
}
