package event

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// derivedSchema has a derived field of every kind, of two entities, and a cross with one of them.
func derivedSchema() Schema {
	return Schema{Task: Ordinal, Label: "y", Levels: 5, Time: "ts", TimeUnit: "ms",
		Categorical: []string{
			"user",
			"item",
			"before",
			"hour",
			"weekday",
			"age",
			"count",
			"item×hour",
		}, Multi: []string{"tags", "last", "fans"},
		Optional: []string{"age", "before", "count", "fans", "hour", "item", "last", "weekday"}, Cross: []Cross{{1, 3}},
		Derived: []Derived{
			{Kind: PreviousLabel, Of: 0, At: 2},
			{Kind: TimeBin, Of: -1, Unit: "hour", At: 3},
			{Kind: TimeBin, Of: -1, Unit: "weekday", At: 4},
			{
				Kind: Age,
				Of:   1,
				Unit: "minute",
				At:   5,
			},
			{Kind: Count, Of: 0, At: 6},
			{Kind: Last, Of: 0, Field: 1, K: 3, Multi: true, At: 1},
			{Kind: Last, Of: 1, Field: 0, K: 2, Multi: true, At: 2},
		}}
}

// slowly derives the fields of the i-th event from all events before it.
func slowly(events []Event, i int) Event {
	ev, at := events[i], time.UnixMilli(events[i].Time).UTC()
	var byUser, byItem []Event
	for _, e := range events[:i] {
		if e.Categorical[0] == ev.Categorical[0] {
			byUser = append(byUser, e)
		}
		if ev.Categorical[1] != "" && e.Categorical[1] == ev.Categorical[1] {
			byItem = append(byItem, e)
		}
	}
	names := func(list []Event, field, k int) (out []string) {
		for n := len(list) - 1; n >= 0 && k > 0; n-- {
			if name := list[n].Categorical[field]; name != "" {
				if k--; !slices.Contains(out, name) {
					out = append(out, name)
				}
			}
		}
		return out
	}
	bin := func(n int) string {
		for low := 1; ; low *= 2 {
			if n < 2 {
				return fmt.Sprint(n)
			} else if n < 2*low {
				return fmt.Sprintf("%d-%d", low, 2*low-1)
			}
		}
	}
	before, age := "", "0"
	if n := len(byUser); n > 0 {
		before = fmt.Sprint(byUser[n-1].Label)
	}
	if len(byItem) > 0 {
		age = bin(int(at.Sub(time.UnixMilli(byItem[0].Time)) / time.Minute))
	}
	weekday := map[string]string{"Mon": "1", "Tue": "2", "Wed": "3", "Thu": "4", "Fri": "5", "Sat": "6",
		"Sun": "7"}[at.Format("Mon")]
	crossed := fmt.Sprintf("%s×%d", ev.Categorical[1], at.Hour())
	if ev.Categorical[1] == "" {
		age, crossed = "", ""
	}
	return Event{
		Categorical: []string{
			ev.Categorical[0],
			ev.Categorical[1],
			before,
			fmt.Sprint(at.Hour()),
			weekday,
			age,
			bin(len(byUser)),
			crossed,
		},
		Multi: [][]string{ev.Multi[0], names(byUser, 1, 3), names(byItem, 0, 2)},
	}
}

// TestDerive: derived fields are those of all events before, whichever way a past is kept, and an event's own label is
// in none of them.
func TestDerive(t *testing.T) {
	s, r := derivedSchema(), rand.New(rand.NewPCG(1, 2))
	decoder := NewJSON(s, DefaultLimits())
	var events []Event
	at := time.Date(2024, 2, 29, 22, 0, 0, 0, time.UTC).UnixMilli()
	pasts := map[string][]byte{}
	for i := range 400 {
		at += r.Int64N(900_000)
		item := fmt.Sprintf(`"item":"i%d",`, r.IntN(6))
		if i%7 == 0 {
			item = ""
		}
		value := fmt.Sprintf(`{"user":"u%d",%s"y":%d,"ts":%d,"tags":["a"],"before":"given","last":7,"count":{}}`,
			r.IntN(8), item, 1+r.IntN(5), at)
		var ev Event
		if rejection := decoder.Decode(&ev, []byte(value), -1); rejection != nil {
			t.Fatal(rejection)
		}
		derived := func() Event {
			s.Derive(&ev, func(field int) *Past {
				b, ok := pasts[fmt.Sprint(field, ev.Categorical[field])]
				if !ok {
					return nil
				}
				p, err := DecodePast(b)
				if err != nil {
					t.Fatal(err)
				}
				return p
			})
			return Event{
				Categorical: slices.Clone(ev.Categorical),
				Multi:       [][]string{ev.Multi[0], slices.Clone(ev.Multi[1]), slices.Clone(ev.Multi[2])},
			}
		}
		got := derived()
		label := ev.Label
		ev.Label = 6 - label
		if again := derived(); !reflect.DeepEqual(again, got) {
			t.Fatalf("event %d: with another label %v, else %v", i, again, got)
		}
		ev.Label = label
		for _, f := range s.Entities() {
			key := fmt.Sprint(f, ev.Categorical[f])
			p := new(Past)
			if b, ok := pasts[key]; ok {
				p, _ = DecodePast(b)
			}
			if ev.Categorical[f] != "" {
				s.Note(p, f, &ev)
				pasts[key] = AppendPast(nil, p)
			}
		}
		events = append(events, Event{Label: label, Time: at, Categorical: got.Categorical, Multi: got.Multi})
		if want := slowly(events, i); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("event %d: %v, want %v", i, got, want)
		}
	}
	for _, c := range s.Causes() {
		if slices.Contains(strings.Fields("before hour weekday age count last fans"), c.Field) {
			t.Errorf("%v: nobody gives a derived field", c)
		}
	}
}

// TestDeriveLabels: the previous label of each task is a name, or the names.
func TestDeriveLabels(t *testing.T) {
	for name, c := range map[string]struct {
		task   Task
		multi  bool
		k      int
		before Event
		want   []string
	}{
		"binary":     {Binary, false, 0, Event{Label: 1}, []string{"1"}},
		"multiclass": {Multiclass, false, 0, Event{Classes: []string{"cat"}}, []string{"cat"}},
		"multilabel": {Multilabel, true, 0, Event{Classes: []string{"cat", "dog"}}, []string{"cat", "dog"}},
		"none":       {Multilabel, true, 0, Event{}, nil},
		"bin":        {Regression, false, 4, Event{Label: 0.1}, []string{"2"}},
		"first":      {Regression, false, 4, Event{Label: -1}, []string{"0"}},
		"largest":    {Regression, false, 4, Event{Label: 1}, []string{"3"}},
	} {
		s := Schema{Task: c.task, LabelMin: -1, LabelMax: 1, Categorical: []string{"user"},
			Derived: []Derived{{Kind: PreviousLabel, Of: 0, K: c.k, Multi: c.multi}}}
		ev := Event{Categorical: []string{"u"}, Multi: [][]string{nil}}
		if !c.multi {
			s.Derived[0].At = 1
			s.Categorical = append(s.Categorical, "before")
			ev.Categorical = append(ev.Categorical, "")
		}
		var p Past
		s.Note(&p, 0, &c.before)
		s.Derive(&ev, func(int) *Past { return &p })
		got := ev.Multi[0]
		if !c.multi {
			got = ev.Categorical[1:]
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestPastIsDamaged: what is no past is refused, and nothing panics.
func TestPastIsDamaged(t *testing.T) {
	whole := AppendPast(nil,
		&Past{First: 1, Time: 1 << 40, Events: 3, Label: []string{"4"}, Last: [][]string{{"a", "bb"}, nil}})
	if p, err := DecodePast(whole); err != nil || len(p.Last) != 2 || p.Last[0][1] != "bb" {
		t.Fatalf("%+v: %v", p, err)
	}
	for n := range whole {
		if p, err := DecodePast(whole[:n]); err == nil {
			t.Errorf("%d bytes: %+v", n, p)
		}
	}
	if _, err := DecodePast(append(slices.Clone(whole), 0)); err == nil {
		t.Error("a byte more is read")
	}
	if got := fmt.Sprintf("%x", whole); got != goldenPast {
		t.Errorf("the form of pasts has changed: %s", got)
	}
}

// goldenPast is never made anew: states hold it.
const goldenPast = "0102808080808040060101340202016102626200"
