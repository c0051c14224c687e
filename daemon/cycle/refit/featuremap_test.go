package refit_test

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/scorer"
)

// Auto takes a map where it predicts better and leaves it out where it does not; what is asked for is taken in any
// case.
func TestFeatureMapIsChosen(t *testing.T) {
	tier.NotUnderRace(t)
	for _, test := range []struct {
		asked  config.FeatureMap
		linear bool
		want   string
		least  float64
	}{{"auto", false, "fourier:200", 0.88}, {"auto", true, "", 0.85}, {"none", false, "", 0}, {"fourier:100", true,
		"fourier:100", 0.8},
		{"bins:12", true, "bins:12", 0.85}} {
		m := chessModel("")
		if err := m.Train.FeatureMap.UnmarshalText([]byte(test.asked)); err != nil {
			t.Fatal(err)
		}
		ch := mustRefit(t, newCycle(t, m), sampleOf(chess(1, 4000, 1, test.linear)))
		if ch.Version.FeatureMap != test.want || (ch.Model.Map != nil) != (test.want != "") {
			t.Errorf("%s, linear %t: the version has map %q, want %q", test.asked, test.linear, ch.Version.FeatureMap,
				test.want)
		}
		if got := float64(*ch.Version.Gate.Accuracy); got < test.least {
			t.Errorf("%s, linear %t: gate accuracy %g, want at least %g", test.asked, test.linear, got, test.least)
		}
	}
}

// What is published scores as the trainer does, and a restart continues from it: with weights on a map of each kind, or
// without.
func TestFeatureMapIsPublished(t *testing.T) {
	for _, asked := range []config.FeatureMap{"auto", "fourier:50", "bins:10", "products:2", ""} {
		linear := asked == ""
		m, events := chessModel(asked), chess(2, 3000, 1, linear)
		ch := mustRefit(t, newCycle(t, m), sampleOf(events))
		published, err := scorer.NewModel(ch.Contents(m))
		if err != nil {
			t.Fatal(err)
		}
		if fm := published.Schema().FeatureMap; (fm != nil) == linear {
			t.Fatalf("linear %t: published with a map: %t", linear, fm != nil)
		}
		var keep bytes.Buffer
		if err := ch.WriteCheckpoint(&keep); err != nil {
			t.Fatal(err)
		}
		manifest := published.Manifest()
		if manifest.ConfigHash != m.Hash() {
			t.Fatal("another configuration")
		}
		again, err := fitted.Restore(m, published, keep.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(again.Vocabulary.Map, ch.Vocabulary.Map) || again.MapRidge != ch.MapRidge ||
			again.Version.FeatureMap != ch.Version.FeatureMap {
			t.Errorf("%s: revived with another map", asked)
		}
		trainer, revived := fitted.NewScorer(ch.Model, ch.Vocabulary), fitted.NewScorer(again.Model, again.Vocabulary)
		var s snapshot.Scratch
		a, b, c := make([]float64, 3), make([]float64, 3), make([]float64, 3)
		for i := range events[:200] {
			trainer.Outputs(a, &events[i])
			revived.Outputs(b, &events[i])
			published.Score(c, &snapshot.Input{Numeric: events[i].Numeric}, &s)
			for o := range a {
				if a[o] != b[o] || math.Abs(a[o]-c[o]) > 1e-9*(1+math.Abs(a[o])) {
					t.Fatalf("%s, event %d: trainer %v, revived %v, published %v", asked, i, a, b, c)
				}
			}
		}
	}
}

// A map stays from refit to refit, so that weights on it remain valid, until the numbers have left it.
func TestFeatureMapStays(t *testing.T) {
	for _, asked := range []config.FeatureMap{"fourier:40", "bins:8"} {
		c, m := newCycle(t, chessModel(asked)), (*format.FeatureMap)(nil)
		for round, scale := range []float64{1, 1.3, 5} {
			events := chess(uint64(round), 1000, scale, false)
			ch := mustRefit(t, c, sampleOf(events))
			if stays := ch.Vocabulary.Map == m; stays != (round == 1) {
				t.Errorf("%s, round %d: the map stays: %t", asked, round, stays)
			}
			m = ch.Vocabulary.Map
			ch.Version.Version = int64(round + 1)
			c.Install(ch)
		}
	}
}
