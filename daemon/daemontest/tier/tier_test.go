package tier

import (
	"slices"
	"testing"
)

func TestNames(t *testing.T) {
	for list, want := range map[string][]Tier{"": nil, "long": {Long}, "broker, long": {Broker, Long},
		"kills,,load": {Kills, Load}} {
		if got, err := parse(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", list, got, err, want)
		}
	}
	if got, err := parse("long,brokers"); err == nil {
		t.Errorf("a name that there is not: %q", got)
	}
}

func TestNeed(t *testing.T) {
	for list, want := range map[string]bool{"": true, "long": true, "load": false, "broker,load": false} {
		t.Setenv(Variable, list)
		var skipped bool
		t.Run("asked "+list, func(t *testing.T) {
			defer func() { skipped = t.Skipped() }()
			Need(t, Load)
		})
		if skipped != want {
			t.Errorf("with %q: skipped %v", list, skipped)
		}
		if form := Size("plain", "long form"); (form == "long form") != (list == "long") {
			t.Errorf("with %q: %s", list, form)
		}
	}
}
