package web

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// ratings is a model of the size of MovieLens 100k: 2,625 names, k = 20, 4 outputs.
func ratings(seed uint64) *format.Contents {
	r := rand.New(rand.NewPCG(seed, 2))
	list := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = 0.3 * r.NormFloat64()
		}
		return v
	}
	names := func(prefix string, n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprint(prefix, i)
		}
		return out
	}
	const users, items, k, m = 943, 1682, 20, 4
	return &format.Contents{
		Kernel:      format.ANOVA,
		Link:        format.OrdinalLink,
		NumFeatures: users + items,
		NumOutputs:  m,
		NumBasis:    k,
		Schema: snapshot.Schema{
			Task:        format.Ordinal,
			Label:       "rating",
			Levels:      m + 1,
			Categorical: []string{"user", "item"},
		},
		Vocabulary: [][]string{
			names("u", users),
			names("i", items),
		},
		Basis:   list((users + items) * k),
		Weights: list(k * m),
		Linear:  list((users + items) * m),
		Bias:    list(m),
		Meta:    format.Meta{Writer: "test", Kind: "refit", Created: time.Unix(1700000000, 0), Decision: "promoted"},
		Golden:  []format.Golden{{Input: snapshot.Input{Categorical: []string{"u1", "i1"}}}},
	}
}

// scoring is a surface with that model, and clients that keep their connections.
type scoring struct {
	*bench
	url    string
	client *http.Client
}

func newScoring(b *testing.B) *scoring {
	s := &scoring{bench: newBench(b), client: newClient(b)}
	s.publish(b, "ratings", ratings(1))
	addr, _ := s.listen(b)
	s.url = "http://" + addr + "/v1/models/ratings/score"
	within(b, patience, "the champion", func() bool {
		c := s.caches["ratings"].champion()
		return c != nil && c.manifest.Version == 2
	})
	return s
}

// ask scores one event over the network.
func (s *scoring) ask(b *testing.B, r *rand.Rand) time.Duration {
	body := fmt.Sprintf(`{"events":[{"user":"u%d","item":"i%d"}]}`, r.IntN(943), r.IntN(1682))
	began := time.Now()
	res, err := s.client.Post(s.url, "application/json", strings.NewReader(body))
	if err != nil {
		b.Error(err)
		return 0
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		b.Errorf("status %d", res.StatusCode)
	}
	return time.Since(began)
}

// BenchmarkScore is one event a request at keep-alive, client and server in this process.
func BenchmarkScore(b *testing.B) {
	s := newScoring(b)
	var mu sync.Mutex
	var took []time.Duration
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		r := rand.New(rand.NewPCG(rand.Uint64(), 1))
		var mine []time.Duration
		for p.Next() {
			mine = append(mine, s.ask(b, r))
		}
		mu.Lock()
		defer mu.Unlock()
		took = append(took, mine...)
	})
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkSwap measures the p99 of requests with a new champion every second against that without, in windows that
// take turns, so that what else the machine does falls on both. The bar is a ratio of 1.2.
func BenchmarkSwap(b *testing.B) {
	s := newScoring(b)
	const window, clients = 2 * time.Second, 4
	seed := uint64(10)
	for b.Loop() {
		took := map[bool][]time.Duration{}
		for round := range 6 {
			swapping := round%2 == 1
			end := time.Now().Add(window)
			var wg sync.WaitGroup
			var mu sync.Mutex
			for c := range clients {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(c), seed))
					var mine []time.Duration
					for time.Now().Before(end) {
						mine = append(mine, s.ask(b, r))
					}
					mu.Lock()
					defer mu.Unlock()
					took[swapping] = append(took[swapping], mine...)
				})
			}
			if swapping {
				for range int(window / time.Second) {
					seed++
					s.publish(b, "ratings", ratings(seed))
					timer := time.NewTimer(time.Until(end) % time.Second)
					<-timer.C
				}
			}
			wg.Wait()
		}
		for _, list := range took {
			slices.Sort(list)
		}
		steady, swapped := took[false][len(took[false])*99/100], took[true][len(took[true])*99/100]
		b.ReportMetric(float64(steady.Microseconds()), "steady-p99-µs")
		b.ReportMetric(float64(swapped.Microseconds()), "swapping-p99-µs")
		b.ReportMetric(float64(swapped)/float64(steady), "ratio")
	}
}

// BenchmarkHandler is BenchmarkScore without the network: what the surface itself takes.
func BenchmarkHandler(b *testing.B) {
	s := newScoring(b)
	body := []byte(`{"events":[{"user":"u7","item":"i99"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		r, err := http.NewRequest("POST", "/v1/models/ratings/score", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		r.Host = "localhost"
		s.ServeHTTP(&deadlines{}, r)
	}
}
