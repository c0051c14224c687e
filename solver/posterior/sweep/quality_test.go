package sweep

import (
	"bufio"
	"compress/gzip"
	"math"
	"math/rand/v2"
	"os"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"gonum.org/v1/gonum/mathext/prng"
)

// rating is one event of MovieLens with dense numbers of user and item.
type rating struct {
	user, item int32
	level      int
}

// movieLens reads a ratings file of the shared data below the project's folder, or skips the test where there is no
// such file.
func movieLens(t testing.TB, parts ...string) (events []rating, users, items int) {
	t.Helper()
	file, err := os.Open(tier.Shared(t, append([]string{"data"}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	numbers := [2]map[string]int32{{}, {}}
	number := func(kind int, name string) int32 {
		n, ok := numbers[kind][name]
		if !ok {
			n = int32(len(numbers[kind]))
			numbers[kind][name] = n
		}
		return n
	}
	lines := bufio.NewScanner(unzipped)
	for lines.Scan() {
		f := strings.Fields(strings.ReplaceAll(lines.Text(), "::", " "))
		level, err := strconv.Atoi(f[2])
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, rating{number(0, f[0]), number(1, f[1]), level})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return events, len(numbers[0]), len(numbers[1])
}

// split divides events 50/25/25 by numpy's legacy RandomState(seed).permutation, so that figures can be compared with
// other libraries':
// a Mersenne Twister and a shuffle from the end, indices drawn by masking and rejection.
func split(events []rating, seed uint64) (train, valid, test []rating) {
	twister := prng.NewMT19937()
	twister.Seed(seed)
	order := make([]rating, len(events))
	copy(order, events)
	for i := len(order) - 1; i > 0; i-- {
		mask := uint32(1)
		for mask < uint32(i) {
			mask = mask<<1 | 1
		}
		j := twister.Uint32() & mask
		for j > uint32(i) {
			j = twister.Uint32() & mask
		}
		order[i], order[j] = order[j], order[i]
	}
	quarter := len(events) / 4
	return order[2*quarter:], order[quarter : 2*quarter], order[:quarter]
}

// squared returns the problem of predicting the ratings themselves.
func squared(events []rating, users, items int) *solver.Problem {
	p := &solver.Problem{X: solver.NewRows(users+items, len(events), 2*len(events)), Outputs: 1, Loss: solver.Squared{},
		Field: make([]int32, users+items), NumFields: 2}
	for j := users; j < users+items; j++ {
		p.Field[j] = 1
	}
	for _, e := range events {
		p.X.Append([]int32{e.user, int32(users) + e.item}, []float64{1, 1})
		p.Targets = append(p.Targets, float64(e.level))
	}
	return p
}

// quality returns RMSE of predictions clipped to [1, 5] and nDCG@1 with gains 2^level − 1, over all users of the
// events.
func quality(m *solver.Model, events []rating, users int) (rmse, ndcg1 float64) {
	type scored struct {
		score float64
		level int
	}
	byUser := map[int32][]scored{}
	out, work := make([]float64, 1), make([]float64, 2*m.NumBasis)
	for _, e := range events {
		m.Predict(out, work, []int32{e.user, int32(users) + e.item}, []float64{1, 1})
		error := max(1, min(5, out[0])) - float64(e.level)
		rmse += error * error
		byUser[e.user] = append(byUser[e.user], scored{out[0], e.level})
	}
	for _, list := range byUser {
		sort.SliceStable(list, func(a, b int) bool { return list[a].score > list[b].score })
		best := 0
		for _, s := range list {
			best = max(best, s.level)
		}
		ndcg1 += (math.Exp2(float64(list[0].level)) - 1) / (math.Exp2(float64(best)) - 1)
	}
	return math.Sqrt(rmse / float64(len(events))), ndcg1 / float64(len(byUser))
}

// worthwhile is the validation RMSE that a further sweep has to gain.
const worthwhile = 3e-4

// fitRatings sweeps from Start until the validation RMSE hardly falls, and returns the best model's quality on the test
// part.
func fitRatings(t *testing.T, events []rating, users, items int, seed uint64, k int,
	prior posterior.Prior) (rmse, ndcg1 float64) {
	t.Helper()
	train, valid, test := split(events, seed)
	p := squared(train, users, items)
	began := time.Now()
	s := Start(posterior.Gaussian, p, nil, nil, k, prior, rand.New(rand.NewPCG(seed, 1)))
	f, err := NewRefit(s, p, prior.Cap, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("split %d: start %.2f s", seed, time.Since(began).Seconds())
	best, model := math.Inf(1), (*solver.Model)(nil)
	for n := 1; ; n++ {
		began = time.Now()
		if _, err := f.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		seconds := time.Since(began).Seconds()
		m := s.Model()
		loss, _ := quality(m, valid, users)
		t.Logf("split %d: sweep %d, %.3f s, validation RMSE %.4f", seed, n, seconds, loss)
		gain := best - loss
		if gain > 0 {
			best, model = loss, m
		}
		if gain < worthwhile {
			break
		}
	}
	rmse, ndcg1 = quality(model, test, users)
	t.Logf("split %d: k %d, test RMSE %.4f, nDCG@1 %.4f", seed, k, rmse, ndcg1)
	return rmse, ndcg1
}

// TestRatings100k: point estimates of other libraries reach 0.924 at best on these splits.
func TestRatings100k(t *testing.T) {
	tier.Need(t, tier.Long)
	events, users, items := movieLens(t, "ml-100k", "u.data.gz")
	rmse, ndcg1 := 0.0, 0.0
	for seed := range uint64(3) {
		a, b := fitRatings(t, events, users, items, seed, 16, posterior.PriorFor(posterior.Gaussian, 1.12))
		rmse, ndcg1 = rmse+a/3, ndcg1+b/3
	}
	if rmse > 0.922 || ndcg1 < 0.74 {
		t.Errorf("RMSE %.4f, nDCG@1 %.4f over three splits, want at most 0.922 and at least 0.740", rmse, ndcg1)
	}
}

// TestRatings1M: other libraries' variational fits reach 0.861 and 0.789. The prior is tighter than PriorFor's, which
// was measured on streams of a tenth of the ratings, and not capped: Start's basis is not young.
func TestRatings1M(t *testing.T) {
	tier.NotUnderRace(t)
	tier.Need(t, tier.Long)
	events, users, items := movieLens(t, "ml-1m", "ratings-without-timestamp.dat.gz")
	prior := posterior.PriorFor(posterior.Gaussian, 1.12)
	prior.Basis, prior.Cap = 15, math.Inf(1)
	rmse, ndcg1 := fitRatings(t, events, users, items, 0, 24, prior)
	if rmse > 0.866 || ndcg1 < 0.79 {
		t.Errorf("RMSE %.4f, nDCG@1 %.4f, want at most 0.866 and at least 0.790", rmse, ndcg1)
	}
}

func TestSplitIsNumpys(t *testing.T) {
	events := make([]rating, 10)
	for i := range events {
		events[i].level = i
	}
	train, valid, test := split(events, 0)
	var got []int
	for _, e := range append(append(append([]rating(nil), test...), valid...), train...) {
		got = append(got, e.level)
	}
	for i, want := range []int{2, 8, 4, 9, 1, 6, 7, 3, 0, 5} { // RandomState(0).permutation(10)
		if got[i] != want {
			t.Fatalf("permutation %v", got)
		}
	}
}
