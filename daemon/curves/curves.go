// Package curves keeps how a model has done over time: its window losses and those of the baselines, its lag, and
// what happened to it. The memory it takes is bounded however long a model runs: points are the closer the newer they
// are. It is a display: nothing is learned from it, and a model whose curves are lost continues without.
package curves

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/durable"
)

const (
	// detail bounds how close points stay: two that are less than 1/detail of their age apart have none between them. A
	// plot of any stretch of time that ends now has at least detail points, or all there were, and the number of points
	// grows by detail to 2·detail each time the age grows e-fold.
	detail    = 128
	maxPoints = 3000 // those of months; beyond them the oldest go
	maxMarks  = 500
	maxText   = 400 // bytes of a mark's text
)

// What a mark is about.
const (
	Promoted = "promoted" // a refit became champion
	Kept     = "kept"     // the gate kept a refit back
	Update   = "update"   // a version between refits
	Moved    = "moved"    // somebody else moved the champion
	Drift    = "drift"    // the drift detector has found a change
	Started  = "started"  // the daemon did
)

// Roles are the predictors that have a loss, by their names in report.Progressive.Roles.
var Roles = [...]string{"published", "live", "global_mean", "item_mean", "sgd_bias", "majority", "last_label", "linear"}

// Losses are the window losses of Roles, NaN for a role without a loss, in the metric of their point.
type Losses [len(Roles)]float32

// Lists are the lists that choices are looked for in.
var Lists = [...]string{"published", "popularity"}

// Recalls are recall@10 of Lists, NaN for a list without one.
type Recalls [len(Lists)]float32

// Point is how a model does at a moment.
type Point struct {
	At      time.Time
	Events  int64 // scored since the state was made
	Lag     int64
	Metric  string // of Losses, as quality.HeadlineOf names it; empty without losses
	Losses  Losses
	Recalls Recalls
}

// Mark is something that happened to a model.
type Mark struct {
	At      int64  `json:"at"`                // milliseconds since 1970
	Kind    string `json:"kind"`              // promoted, kept, update, moved, drift or started
	Version int64  `json:"version,omitempty"` // that it is about
	Text    string `json:"text"`              // for people
}

// Curves are points by column, oldest first, and the marks of their time.
type Curves struct {
	At     []int64                    `json:"at"`               // milliseconds since 1970 of each point
	Events []int64                    `json:"events"`           // scored since the state was made
	Lag    []int64                    `json:"lag"`              // records that were not applied yet
	Metric string                     `json:"metric,omitempty"` // of losses: rmse, log_loss or error_rate
	Losses map[string][]report.Number `json:"losses"`           // over the window, by predictor; null where it had none
	// Recall10 is recall@10 of choices, by list: published and popularity. It is absent of models with labels.
	Recall10 map[string][]report.Number `json:"recall_10,omitempty"`
	Marks    []Mark                     `json:"marks"` // what happened, oldest first
}

// Ring is the curves of one model. It is safe for concurrent use.
type Ring struct {
	path string
	log  *slog.Logger

	mu     sync.Mutex // guards what follows
	points []point
	metric string // of their losses; empty before the first, or as earlier builds have it
	marks  []Mark
	moved  bool // since Save
}

// point is a Point in the memory that it needs.
type point struct {
	at, events, lag int64
	losses          Losses
	recalls         Recalls
}

// Footprint returns the bytes that the curves of a model take, with those of a copy that is written.
func Footprint() int64 { return maxPoints*(72+130) + maxMarks*(maxText+200) }

// Open returns the curves that an earlier run has kept in a file, or empty ones. A file that cannot be read is logged,
// and replaced by Save.
func Open(path string, log *slog.Logger) *Ring {
	r := &Ring{path: path, log: log}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r
	}
	var kept Curves
	if err == nil {
		err = json.Unmarshal(b, &kept)
	}
	if err == nil {
		err = r.restore(&kept)
	}
	if err != nil {
		log.Warn("curves of earlier runs cannot be read: they begin anew", "path", path, "error", err)
		return &Ring{path: path, log: log}
	}
	return r
}

// restore takes up what Save wrote.
func (r *Ring) restore(c *Curves) error {
	n := len(c.At)
	if len(c.Events) != n || len(c.Lag) != n || n > maxPoints || len(c.Marks) > maxMarks {
		return fmt.Errorf("curves: columns of %d, %d and %d points, %d marks", n, len(c.Events), len(c.Lag),
			len(c.Marks))
	}
	r.points, r.marks, r.metric = make([]point, n), c.Marks, c.Metric
	for i := range r.points {
		r.points[i] = point{at: c.At[i], events: c.Events[i], lag: c.Lag[i], losses: NoLosses(), recalls: NoRecalls()}
	}
	take := func(lists map[string][]report.Number, name string, to func(*point) *float32) error {
		list := lists[name]
		if list != nil && len(list) != n {
			return fmt.Errorf("curves: %d values of %s for %d points", len(list), name, n)
		}
		for i, v := range list {
			*to(&r.points[i]) = float32(v)
		}
		return nil
	}
	for role, name := range Roles {
		if err := take(c.Losses, name, func(p *point) *float32 { return &p.losses[role] }); err != nil {
			return err
		}
	}
	for i, name := range Lists {
		if err := take(c.Recall10, name, func(p *point) *float32 { return &p.recalls[i] }); err != nil {
			return err
		}
	}
	if !slices.IsSortedFunc(r.points, func(a, b point) int { return cmp.Compare(a.at, b.at) }) {
		return errors.New("curves: points that are not in the order of time")
	}
	return nil
}

// NoLosses is of a model that has predicted nothing yet.
func NoLosses() (l Losses) {
	for i := range l {
		l[i] = float32(math.NaN())
	}
	return l
}

// NoRecalls is of a model without choices that were looked at.
func NoRecalls() (l Recalls) {
	for i := range l {
		l[i] = float32(math.NaN())
	}
	return l
}

// Add adds a point and thins out the older ones. Points from after it, of a clock that was set back since, go.
func (r *Ring) Add(p Point) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := p.At.UnixMilli()
	for len(r.points) > 0 && r.points[len(r.points)-1].at >= now {
		r.points = r.points[:len(r.points)-1]
	}
	if n := len(r.points); n == 0 || r.points[n-1].events != p.Events || r.points[n-1].lag != p.Lag {
		r.moved = true
	}
	r.setMetric(p.Metric)
	r.points = append(r.points, point{now, p.Events, p.Lag, p.Losses, p.Recalls})
	kept := r.points[:1]
	for i := 1; i < len(r.points); i++ {
		last := i == len(r.points)-1
		if !last && r.points[i+1].at-kept[len(kept)-1].at <= (now-r.points[i].at)/detail {
			continue
		}
		kept = append(kept, r.points[i])
	}
	if more := len(kept) - maxPoints; more > 0 {
		kept = slices.Delete(kept, 0, more)
	}
	r.points = kept
}

// setMetric leaves out the losses of another metric: that of a model that was configured anew, or of a build that had
// error rates where there are log losses.
func (r *Ring) setMetric(metric string) {
	if metric == "" || metric == r.metric {
		return
	}
	if r.metric != "" || metric == "log_loss" {
		for i := range r.points {
			r.points[i].losses = NoLosses()
		}
	}
	r.metric = metric
}

// Mark adds what happened. Where there is no room, updates go before everything else, oldest first.
func (r *Ring) Mark(at time.Time, kind string, version int64, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moved = true
	r.marks = append(r.marks,
		Mark{at.UnixMilli(), kind, version, strings.ToValidUTF8(text[:min(len(text), maxText)], "")})
	if len(r.marks) > maxMarks {
		gone := max(0, slices.IndexFunc(r.marks, func(m Mark) bool { return m.Kind == Update }))
		r.marks = slices.Delete(r.marks, gone, gone+1)
	}
}

// Heard returns when the number of events last rose, as far as the points show: some seconds late, the more the
// longer ago. It is zero before the first event.
func (r *Ring) Heard() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := len(r.points) - 1
	if i < 0 || r.points[i].events == 0 {
		return time.Time{}
	}
	for i > 0 && r.points[i].events == r.points[i-1].events {
		i--
	}
	return time.UnixMilli(r.points[i].at)
}

// Since returns the points and marks from after a time in milliseconds since 1970; all of them after 0.
func (r *Ring) Since(after int64) *Curves {
	r.mu.Lock()
	defer r.mu.Unlock()
	from, _ := slices.BinarySearchFunc(r.points, after+1, func(p point, at int64) int { return cmp.Compare(p.at, at) })
	c := &Curves{
		At:       []int64{},
		Events:   []int64{},
		Lag:      []int64{},
		Metric:   r.metric,
		Losses:   map[string][]report.Number{},
		Recall10: map[string][]report.Number{},
		Marks:    []Mark{},
	}
	for _, p := range r.points[from:] {
		c.At, c.Events, c.Lag = append(c.At, p.at), append(c.Events, p.events), append(c.Lag, p.lag)
	}
	give := func(lists map[string][]report.Number, name string, of func(*point) float32) {
		list, any := make([]report.Number, 0, len(c.At)), false
		for i := range r.points[from:] {
			v := short(of(&r.points[from+i]))
			any = any || !math.IsNaN(float64(v))
			list = append(list, v)
		}
		if any {
			lists[name] = list
		}
	}
	for role, name := range Roles {
		give(c.Losses, name, func(p *point) float32 { return p.losses[role] })
	}
	for i, name := range Lists {
		give(c.Recall10, name, func(p *point) float32 { return p.recalls[i] })
	}
	for _, m := range r.marks {
		if m.At > after {
			c.Marks = append(c.Marks, m)
		}
	}
	return c
}

// short returns a loss with the digits that a plot shows.
func short(v float32) report.Number {
	if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
		return report.Number(math.NaN())
	}
	out, _ := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', 5, 32), 64)
	return report.Number(out)
}

// Moved reports whether there were events or marks since Save, and not only points of a model at rest.
func (r *Ring) Moved() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.moved
}

// Save replaces the file by what there is now. It is durable when Save returns.
func (r *Ring) Save() error {
	r.setMoved(false) // before: what comes while it is written is for the next time
	all := r.Since(math.MinInt64)
	err := durable.WriteFile(r.path, 0o600, func(w io.Writer) error { return json.NewEncoder(w).Encode(all) })
	if err != nil {
		r.setMoved(true)
	}
	return err
}

func (r *Ring) setMoved(moved bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moved = moved
}
