package backtest

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/evaluate"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

func clockOf(t *testing.T, text string) (c offline.Clock) {
	t.Helper()
	if err := c.UnmarshalText([]byte(text)); err != nil || c.String() != text {
		t.Fatalf("clock %q: %v, %v", text, c, err)
	}
	return c
}

func TestClock(t *testing.T) {
	for _, text := range []string{"", "events", "events:", "events:0", "events:-5", "events:1.5", "seconds:3", "time:1",
		"events:99999999999999999999"} {
		if err := new(offline.Clock).UnmarshalText([]byte(text)); err == nil ||
			!strings.Contains(err.Error(), "events:N") {
			t.Errorf("clock %q: %v", text, err)
		}
	}
	if s := (offline.Clock{}).String(); s != "events:100" {
		t.Errorf("the zero clock is %s", s)
	}
	even, stamped := offline.Simulated{Clock: clockOf(t, "events:3")}, offline.Simulated{Clock: clockOf(t, "time")}
	stamps, want := []int64{5000, 7000, 6000, 7500}, []int64{5000, 7000, 7000, 7500}
	var begin time.Time
	for i, stamp := range stamps {
		e := &dataset.Example{}
		e.Time = stamp
		if at := even.At(i, e); i == 0 {
			begin = at
		} else if got := at.Sub(begin); got != time.Duration(i)*time.Second/3 {
			t.Errorf("events:3, event %d after %v", i, got)
		}
		if got := stamped.At(i, e).UnixMilli(); got != want[i] {
			t.Errorf("time, event %d at %d, want %d", i, got, want[i])
		}
	}
}

// TestBacktestSchedule: versions come at the events at which the daemon would have made them, by every, every_events
// and update_every.
// The first update is not published.
func TestBacktestSchedule(t *testing.T) {
	tier.NotUnderRace(t)
	path := offlinetest.WriteFile(t, "u.data", strings.Join(offlinetest.Ratings(500, 1), "\n")) // an event a second
	for _, test := range []struct {
		clock       string
		every       time.Duration
		everyEvents int
		updates     time.Duration
		want        string // events before each version, refits without a sign
	}{
		{"events:100", 2 * time.Second, 0, 0, "200 400"},
		{"events:10", 20 * time.Second, 0, 10 * time.Second, "200 u300 400 u400"},
		{"events:100", 0, 240, time.Second, "240 u340 u440 480 u480"},
		{"events:100", 3 * time.Second, 240, 0, "240 480"},
		{"time", 150 * time.Second, 400, 100 * time.Second, "150 u250 300 u300 u400 450 u450"},
	} {
		m := offlinetest.Configured(t)
		m.Train.Every, m.Train.EveryEvents, m.Publish.UpdateEvery = config.Duration(
			test.every), test.everyEvents, config.Duration(test.updates)
		m.Train.TimeBudget = config.Duration(time.Nanosecond)    // ends no refit
		m.Publish.Gate.MinRows, m.Publish.Gate.Tolerance = 1, 10 // promoted, all of them
		lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
			return Run(
				t.Context(),
				Options{
					Model:  m,
					Data:   path,
					Format: dataset.MovieLens,
					Order:  dataset.TimeOrder,
					Clock:  clockOf(t, test.clock),
					Now:    offlinetest.Clock,
				},
				out,
			)
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		events := 0.0
		for _, l := range lines {
			switch {
			case l["type"] == "tick": // each 10 events
				events = offlinetest.Number(t, l, "events")
			case l["type"] == "version" && l["kind"] == "update":
				got = append(got, fmt.Sprint("u", events))
			case l["type"] == "version":
				got = append(got, fmt.Sprint(events))
			}
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("%+v: versions at %s", test, s)
		}
	}
}

// TestPublishedIsWhatConsumersHave: the losses of published are those of the versions in the store, updates included,
// each on the events that came while it was champion.
func TestPublishedIsWhatConsumersHave(t *testing.T) {
	path, store := offlinetest.WriteFile(t, "u.data", strings.Join(offlinetest.Ratings(90, 2), "\n")), t.TempDir()
	m := offlinetest.Configured(t)
	m.Train.EveryEvents, m.Publish.UpdateEvery, m.Sample.Holdout.Fraction = 30, config.Duration(
		100*time.Millisecond), 0.1
	lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return Run(
			t.Context(),
			Options{
				Model:  m,
				Data:   path,
				Format: dataset.MovieLens,
				Order:  dataset.FileOrder,
				Store:  store,
				Now:    offlinetest.Clock,
			},
			out,
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	set, err := offline.ReadEvents(m, path, dataset.MovieLens, offline.TableOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	scores, square, kinds := 0, 0.0, map[any]int{}
	for _, l := range offlinetest.OfType(lines, "version") {
		kinds[l["kind"]]++
	}
	for i, tick := range offlinetest.OfType(lines, "tick") { // one an event
		if tick["version"] == nil {
			continue
		}
		version, err := snapshot.Open(store, m.Name,
			snapshot.Selector{Version: int64(offlinetest.Number(t, tick, "version"))})
		if err != nil {
			t.Fatal(err)
		}
		ev := &set.Examples[i].Event
		in := evaluate.InputOf(ev)
		p, err := version.Predict(&in)
		if err != nil {
			t.Fatal(err)
		}
		scores, square = scores+1, square+math.Pow(p.Value-ev.Label, 2)
	}
	s := offlinetest.Last(lines)
	if got, want := offlinetest.Number(t, s, "progressive.all.published.rmse"), math.Sqrt(square/float64(
		scores)); math.Abs(got-want) > 1e-9 ||
		scores != 60 {
		t.Errorf("published rmse %g, of the versions in the store on %d events %g", got, scores, want)
	}
	if kinds["update"] < 3 || kinds["refit"] != 2 {
		t.Errorf("versions %v", kinds)
	}
}

// TestBacktestThatNeverRefits is refused before anything is run, with what to set.
func TestBacktestThatNeverRefits(t *testing.T) {
	path := offlinetest.WriteFile(t, "u.data", strings.Join(offlinetest.Ratings(300, 1), "\n"))
	for _, test := range []struct {
		every       time.Duration
		everyEvents int
		clock       string
		words       []string // none if it is run
	}{
		{0, 0, "events:100", []string{"train.every (such as", "train.every_events (such as"}},
		{0, 300, "events:100", []string{"300 events", "train.every_events 300"}},
		{0, 299, "events:100", nil},
		{3 * time.Second, 0, "events:100", []string{"events:100", "train.every is 3s"}},
		{3 * time.Second, 0, "events:99", nil},
		{300 * time.Second, 0, "time", []string{"--clock time"}},
		{299 * time.Second, 0, "time", nil},
	} {
		m := offlinetest.Configured(t)
		m.Train.Every, m.Train.EveryEvents = config.Duration(test.every), test.everyEvents
		lines, err := offlinetest.Collect(t, func(out *report.Emitter) error {
			return Run(t.Context(), Options{Model: m, Data: path, Format: dataset.MovieLens, Order: dataset.TimeOrder,
				Clock: clockOf(t, test.clock), Now: offlinetest.Clock}, out)
		})
		if test.words != nil {
			offlinetest.WantExit(t, err, report.ExitUsage, test.words...)
		} else if err != nil || offlinetest.Number(t, offlinetest.Last(lines), "versions_promoted") != 1 {
			t.Errorf("%+v: %v", test, err)
		}
	}
	timeless := offlinetest.WriteFile(t, "u.data", "u1\ti1\t5\nu2\ti1\t4\n")
	m := offlinetest.Configured(t)
	m.Schema.Time = ""
	_, err := offlinetest.Collect(t, func(out *report.Emitter) error {
		return Run(t.Context(), Options{Model: m, Data: timeless, Format: dataset.MovieLens, Order: dataset.FileOrder,
			Clock: clockOf(t, "time"), Now: offlinetest.Clock}, out)
	})
	offlinetest.WantExit(t, err, report.ExitUsage, "--clock time", "schema.time")
}
