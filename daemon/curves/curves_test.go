package curves

import (
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var began = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func pointAt(d time.Duration, loss float32) Point {
	p := Point{At: began.Add(d), Events: int64(d / time.Millisecond), Lag: 7, Losses: NoLosses(), Recalls: NoRecalls()}
	p.Losses[1] = loss
	return p
}

// Points are bounded over a year, and at every age as close as detail says.
func TestPointsAreBounded(t *testing.T) {
	r := Open(filepath.Join(t.TempDir(), "curves.json"), quiet())
	const every = 2 * time.Second
	at := time.Duration(0)
	for range 30_000 { // most of a day
		at += every
		r.Add(pointAt(at, 1))
	}
	if n := len(r.points); n > detail*2*7 {
		t.Errorf("%d points of a day", n)
	}
	now := r.points[len(r.points)-1].at
	for i := 1; i < len(r.points); i++ {
		age, apart := now-r.points[i-1].at, r.points[i].at-r.points[i-1].at
		if most := max(every.Milliseconds(), age/detail); apart > most {
			t.Fatalf("points of an age of %d ms are %d ms apart, at most %d are asked for", age, apart, most)
		}
	}
	if first := r.points[0].at; first != began.Add(every).UnixMilli() {
		t.Errorf("the oldest point is at %d", first)
	}
	for range 2 * maxPoints { // more than there is room for, whatever their age
		at += 100 * 24 * time.Hour
		r.Add(pointAt(at, 1))
	}
	if n := len(r.points); n > maxPoints {
		t.Errorf("%d points, at most %d are allowed", n, maxPoints)
	}
}

// A model at rest has nothing new to save; events, a lag and marks are new.
func TestMoved(t *testing.T) {
	r := Open(filepath.Join(t.TempDir(), "curves.json"), quiet())
	p := pointAt(time.Second, 1)
	for i, c := range []struct {
		do    func()
		wants bool
	}{{func() {}, false}, {func() { r.Add(p) }, true}, {func() { p.At = p.At.Add(time.Second); r.Add(p) }, false},
		{func() { p.At, p.Lag = p.At.Add(time.Second), 9; r.Add(p) }, true}, {func() {
			p.At, p.Events = p.At.Add(time.Second),
				1e6
			r.Add(p)
		}, true},
		{func() { r.Mark(p.At, Kept, 3, "kept back") }, true}, {func() {}, false}} {
		if c.do(); r.Moved() != c.wants {
			t.Errorf("%d: moved %t", i, r.Moved())
		}
		if err := r.Save(); err != nil {
			t.Fatal(err)
		}
	}
	r.Mark(p.At, Kept, 4, "kept back, too")
	if r.path = filepath.Join(t.TempDir(), "missing", "curves.json"); r.Save() == nil || !r.Moved() {
		t.Error("what could not be saved is not saved the next time")
	}
}

// What is saved is what a later run opens, and a loss that is no number is null.
func TestCurvesSurviveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "curves.json")
	r := Open(path, quiet())
	for i := range 50 {
		r.Add(pointAt(time.Duration(i)*time.Second, 0.123456789+float32(i)))
	}
	nan := pointAt(time.Minute, float32(math.NaN()))
	nan.Losses[2] = float32(math.Inf(1))
	r.Add(nan)
	r.Mark(began.Add(3*time.Second), Promoted, 4, "first version")
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(b), `"live":[0.12346,1.1235,`) || !strings.Contains(string(b), "null]") ||
		strings.Contains(string(b), "item_mean") {
		t.Errorf("%v, %s", err, b)
	}
	again := Open(path, quiet())
	want, _ := json.Marshal(r.Since(0))
	if got, err := json.Marshal(again.Since(0)); err != nil || string(got) != string(want) {
		t.Errorf("%v:\n%s\nwant\n%s", err, got, want)
	}
	late := again.Since(began.Add(48 * time.Second).UnixMilli())
	if len(late.At) != 2 || len(late.Losses["live"]) != 2 || len(late.Marks) != 0 {
		t.Errorf("%+v", late)
	}
}

// A file that is cut off or of another form begins anew, and the next Save replaces it.
func TestDamagedCurvesBeginAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "curves.json")
	for _, text := range []string{"", "{", `{"at":[1,2],"events":[1],"lag":[1,2]}`,
		`{"at":[2,1],"events":[1,1],"lag":[1,2]}`,
		`{"at":[1],"events":[1],"lag":[1],"losses":{"live":[1,2]}}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		r := Open(path, slog.New(slog.NewTextHandler(&log, nil)))
		if len(r.points) != 0 || !strings.Contains(log.String(), "begin anew") {
			t.Errorf("%q: %d points, log %s", text, len(r.points), &log)
		}
		r.Add(pointAt(0, 1))
		if err := r.Save(); err != nil || len(Open(path, quiet()).points) != 1 {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A clock that is set back takes along what would be in its future; the order of time stays.
func TestClockSetBack(t *testing.T) {
	r := Open(filepath.Join(t.TempDir(), "curves.json"), quiet())
	for _, at := range []time.Duration{1, 2, 3, 4, 2, 3} {
		r.Add(pointAt(at*time.Hour, float32(at)))
	}
	var got []int64
	for _, p := range r.points {
		got = append(got, p.events/3_600_000)
	}
	if want := []int64{1, 2, 3}; !reflect.DeepEqual(got, want) {
		t.Errorf("hours %v, want %v", got, want)
	}
}

// Updates make room for what is rarer.
func TestMarksAreBounded(t *testing.T) {
	r := Open(filepath.Join(t.TempDir(), "curves.json"), quiet())
	r.Mark(began, Drift, 0, strings.Repeat("ä", maxText))
	for i := range 10 * maxMarks {
		r.Mark(began.Add(time.Duration(i)*time.Second), Update, int64(i), "")
	}
	if len(r.marks) != maxMarks || r.marks[0].Kind != Drift || r.marks[maxMarks-1].Version != 10*maxMarks-1 ||
		len(r.marks[0].Text) != maxText {
		t.Errorf("%d marks, first %+v, last %+v", len(r.marks), r.marks[0], r.marks[len(r.marks)-1])
	}
}

// TestHeard: the last event is as old as the points say, also after a restart and where older points were thinned out.
func TestHeard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "curves.json")
	r := Open(path, slog.New(slog.DiscardHandler))
	begin := time.UnixMilli(1_700_000_000_000)
	add := func(second int, events int64) {
		r.Add(
			Point{
				At:      begin.Add(time.Duration(second) * time.Second),
				Events:  events,
				Losses:  NoLosses(),
				Recalls: NoRecalls(),
			},
		)
	}
	want := func(second int, within time.Duration) {
		t.Helper()
		if got := r.Heard().Sub(begin.Add(time.Duration(second) * time.Second)); got.Abs() > within {
			t.Errorf("heard %v off second %d, want within %v", got, second, within)
		}
	}
	if add(0, 0); !r.Heard().IsZero() {
		t.Errorf("no event, heard at %v", r.Heard())
	}
	add(10, 5)
	want(10, 0)
	add(20, 9)
	want(20, 0)
	for s := 30; s <= 7200; s += 10 {
		add(s, 9)
	}
	want(20, 7200*time.Second/detail)
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
	r = Open(path, slog.New(slog.DiscardHandler))
	add(7300, 9)
	want(20, 7300*time.Second/detail)
	add(7310, 10)
	want(7310, 0)
}

// TestLossesOfAnotherMetricGo: points of a build that had error rates where there are log losses now keep their lag and
// lose their losses; those of numbers stay.
func TestLossesOfAnotherMetricGo(t *testing.T) {
	for metric, want := range map[string]int{"log_loss": 1, "rmse": 2} {
		path := filepath.Join(t.TempDir(), "curves.json")
		old := Open(path, quiet())
		old.Add(pointAt(time.Second, 0.2)) // without a metric, as earlier builds
		if err := old.Save(); err != nil {
			t.Fatal(err)
		}
		r := Open(path, quiet())
		next := pointAt(time.Minute, 0.4)
		next.Metric = metric
		r.Add(next)
		if err := r.Save(); err != nil {
			t.Fatal(err)
		}
		c, n := Open(path, quiet()).Since(0), 0
		for _, v := range c.Losses["live"] {
			if !math.IsNaN(float64(v)) {
				n++
			}
		}
		if n != want || len(c.At) != 2 || c.Lag[0] != 7 || c.Metric != metric {
			t.Errorf("%s: %+v", metric, c)
		}
	}
}
