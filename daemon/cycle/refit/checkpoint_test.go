package refit_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/variational"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/publish"
)

func TestCheckpointIsRestored(t *testing.T) {
	tier.NotUnderRace(t)
	smaller := func(m *config.Model) { m.Train.MaxBasis = 3 }
	t.Run("ordinal", func(t *testing.T) {
		restoresCheckpoint(t, cycletest.RatingsModel(nil), cycletest.RatingsModel(smaller), cycletest.Stream(8, 3000))
	})
	t.Run("entities held out",
		func(t *testing.T) { restoresCheckpoint(t, crowdModel(nil), crowdModel(smaller), crowd(8, 3000)) })
	t.Run("groups", func(t *testing.T) {
		restoresCheckpoint(t, sideModel(nil), sideModel(smaller), withSides(cycletest.Stream(8, 3000)))
	})
	t.Run("multiclass", func(t *testing.T) {
		restoresCheckpoint(t, cycletest.ClassesModel(event.Multiclass, nil),
			cycletest.ClassesModel(event.Multiclass, smaller), cycletest.ClassStream(event.Multiclass, 2000))
	})
}

// restoresCheckpoint checks that a champion is restored from its snapshot and its checkpoint, and not under another
// configuration.
func restoresCheckpoint(t *testing.T, m, other *config.Model, events []event.Event) (again *fitted.Fitted) {
	c := newCycle(t, m)
	observeAll(c, events)
	ch := mustRefit(t, c, sampleOf(events))
	store := publish.NewStore(t.TempDir())
	contents := ch.Contents(m)
	contents.Meta.Created, contents.Meta.Writer = time.Unix(1, 0), "test"
	manifest, err := store.Publish(context.Background(), m.Name, contents)
	if err != nil {
		t.Fatal(err)
	}
	ch.Version.Version = manifest.Version
	ch.Precisions = fitted.PrecisionChoice{
		Stage:    variational.PrecisionsCarried,
		Gaussian: variational.PrecisionsAnew,
		Refits:   2,
	}
	var keep bytes.Buffer
	if err := ch.WriteCheckpoint(&keep); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	store = publish.NewStore(dir)
	if _, err := store.Publish(context.Background(), m.Name, contents); err != nil {
		t.Fatal(err)
	}
	opened, err := snapshot.Open(dir, m.Name, snapshot.Selector{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	if again, err = fitted.Restore(m, opened, keep.Bytes()); err != nil {
		t.Fatal(err)
	}
	if len(again.Golden) != len(opened.Contents().Golden) {
		t.Errorf("revived with %d golden events, the version has %d: an update of it cannot be published",
			len(again.Golden), len(opened.Contents().Golden))
	}
	if !reflect.DeepEqual(again.Posterior, ch.Posterior) || !reflect.DeepEqual(again.Model, ch.Model) ||
		!reflect.DeepEqual(again.Means, ch.Means) ||
		!reflect.DeepEqual(again.Gaussian,
			ch.Gaussian) || !reflect.DeepEqual(again.WithoutHoldout, ch.WithoutHoldout) ||
		!reflect.DeepEqual(again.HeldOut, ch.HeldOut) || !reflect.DeepEqual(again.Dual, ch.Dual) ||
		again.Scale != ch.Scale ||
		again.Precisions != ch.Precisions ||
		!reflect.DeepEqual(again.ModelWithoutHoldout(), ch.ModelWithoutHoldout()) ||
		ch.Posterior != nil && ch.WithoutHoldout == nil ||
		ch.Posterior != nil && ch.Posterior.Group != nil && !reflect.DeepEqual(again.Convex, ch.Convex) {
		t.Error("the revived champion differs")
	}
	if _, err := fitted.Restore(m, opened, keep.Bytes()[:keep.Len()/2]); err == nil {
		t.Error("half a posterior is accepted")
	}
	if _, err := fitted.Restore(other, opened, keep.Bytes()); err == nil {
		t.Error("another configuration is accepted")
	}
	encoded := func(format int) []byte { // in one message, as format 1 is
		var k fitted.Checkpoint
		if err := gob.NewDecoder(bytes.NewReader(keep.Bytes())).Decode(&k); err != nil {
			t.Fatal(err)
		}
		k.Format, k.Posterior, k.Gaussian = format, ch.Posterior, ch.Gaussian
		if w := ch.WithoutHoldout; w != nil {
			k.Clean, k.CleanGaussian = w.Posterior, w.Gaussian
		}
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(&k); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	if before, err := fitted.Restore(m, opened, encoded(1)); err != nil || !reflect.DeepEqual(before, again) {
		t.Errorf("what an earlier build kept is not restored to the same: %v", err)
	}
	if _, err := fitted.Restore(m, opened, encoded(fitted.CheckpointFormat+1)); !errors.Is(err, fitted.ErrOtherBuild) {
		t.Errorf("a posterior of a later format: %v", err)
	}
	return again
}
