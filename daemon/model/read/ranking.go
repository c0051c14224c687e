package read

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/choices"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/ingest/negatives"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/statuspage"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/backoff"
)

const (
	rankedChoices = 1000                  // that the figures are of
	rankPause     = 10 * time.Millisecond // between two lists at least
	// a list is followed by a pause of so many times what it took, but for one: it takes a twentieth of a processor
	rankShare = 20
)

// Ranking looks at some of the choices as they come: where the list of ten that consumers would have got had what was
// chosen, compared with the list of the most popular names. Lists leave out what their entity has chosen among the
// last choices. It is a display, of the choices that there is time for, as they come: reading does not wait for it,
// and nothing is learned from it.
type Ranking struct {
	schema event.Schema
	known  *choices.Known // of the goroutine that learns
	asked  chan question  // holds one
	busy   atomic.Bool    // there is a question, or a pause after one
	// version, once there is one, returns what consumers have, nil before the first version.
	version atomic.Pointer[func() *snapshot.Model]

	mu     sync.Mutex // guards what follows
	judged []judgedChoice
	next   int // of judged once it is full
}

// question asks for the place of a name in the list that a version makes.
type question struct {
	version *snapshot.Model
	query   *snapshot.Query
	name    string
	popular int // its place among the most popular ones
}

// judgedChoice has the places of a choice in the lists that curves.Lists names.
type judgedChoice [len(curves.Lists)]int

// NewRanking returns nil for a model whose events have labels.
func NewRanking(m *config.Model) *Ranking {
	known := choices.New(m, negatives.Kept)
	if known == nil {
		return nil
	}
	return &Ranking{schema: m.Schema.Event(), known: known, asked: make(chan question, 1)}
}

// see takes up a choice. One of an earlier run, before this one reads, is only known then.
func (r *Ranking) see(ev *event.Event, before bool) {
	if of := r.version.Load(); of != nil && !before && !r.busy.Load() {
		if version := (*of)(); version != nil {
			in := cloned(fitted.InputOf(&r.schema, ev))
			r.busy.Store(true)
			r.asked <- question{version, r.known.Query(ev, &in), r.known.Chosen(ev), r.known.PopularPlace(ev)}
		}
	}
	r.known.Note(ev)
}

// cloned returns an input that shares no lists with another one.
func cloned(in snapshot.Input) snapshot.Input {
	in.Categorical, in.Numeric, in.Multi = slices.Clone(in.Categorical), slices.Clone(
		in.Numeric), slices.Clone(in.Multi)
	for i := range in.Multi {
		in.Multi[i] = slices.Clone(in.Multi[i])
	}
	return in
}

// Run answers questions until ctx is done.
func (r *Ranking) Run(ctx context.Context, version func() *snapshot.Model) {
	r.version.Store(&version)
	defer r.version.Store(nil)
	var items []snapshot.Item
	var scratch snapshot.Scratch
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-r.asked:
			began := time.Now()
			var place int
			var err error
			place, items, err = choices.Place(q.version, q.query, q.name, items, &scratch)
			if err == nil { // else the version is of other fields: the next one is not
				r.add(judgedChoice{place, q.popular})
			}
			if backoff.Sleep(ctx, max(rankPause, (rankShare-1)*time.Since(began))) != nil {
				return
			}
			r.busy.Store(false)
		}
	}
}

func (r *Ranking) add(j judgedChoice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.judged) < rankedChoices {
		r.judged = append(r.judged, j)
		return
	}
	r.judged[r.next] = j
	r.next = (r.next + 1) % rankedChoices
}

// hits returns how the lists did on the last choices that were looked at.
func (r *Ranking) hits() (out [len(curves.Lists)]choices.Hits) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.judged {
		for list, place := range j {
			out[list].Add(place)
		}
	}
	return out
}

// Status is what the status page shows of it; nil without any choice that was looked at.
func (r *Ranking) Status() *statuspage.RankingStatus {
	if r == nil {
		return nil
	}
	hits := r.hits()
	if hits[0].N() == 0 {
		return nil
	}
	var of [len(hits)]report.Metrics
	for i := range hits {
		of[i].N = hits[i].N()
		hits[i].AddTo(&of[i])
	}
	return &statuspage.RankingStatus{Published: of[0], Popularity: of[1]}
}
