package publish

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/publish"
)

// signingModel is a small regression whose versions are signed.
func signingModel(t *testing.T) *config.Model {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys")
	id, err := publish.CreateKeys(keys, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	m := config.DefaultModel()
	m.Name = "ratings"
	m.Schema = config.Schema{Task: "regression", Label: "rating", TimeUnit: "ms", Categorical: []string{"user", "item"}}
	m.Publish.SigningKeyFile = filepath.Join(keys, id+".key")
	m.Resolve()
	return &m
}

// champion trains a first version.
func champion(t *testing.T, m *config.Model) *fitted.Fitted {
	t.Helper()
	c, err := cycle.New(m, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s := &encode.Sample{Digest: "sha256:test"}
	for i := range 400 {
		row := rows.AppendEvent(
			nil,
			&event.Event{
				Label:       float64(i%5 + i%3),
				Weight:      1,
				Categorical: []string{fmt.Sprint("u", i%20), fmt.Sprint("i", i%15)},
			},
		)
		switch i % 10 {
		case 0:
			s.Select = append(s.Select, row)
		case 1:
			s.Gate = append(s.Gate, row)
		default:
			s.Train = append(s.Train, row)
		}
	}
	ch, err := c.Refit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	ch.Version.Decision = Promoted
	return ch
}

// TestDeltasOfThePublisher: deltas follow the version that was published last, in sequence and signed, and carry the
// digest that was made of an earlier one. No delta is published without a version, for another champion, and after
// EndDeltas.
func TestDeltasOfThePublisher(t *testing.T) {
	m, dir := signingModel(t), t.TempDir()
	p, err := New(m, dir, time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.BeginDeltas(t.Context()); !errors.Is(err, ErrNoChain) {
		t.Errorf("deltas without a version: %v", err)
	}
	ch := champion(t, m)
	if err := p.Publish(t.Context(), ch); err != nil {
		t.Fatal(err)
	}
	if err := p.BeginDeltas(t.Context()); err != nil || !p.HasDeltas() {
		t.Fatal(err)
	}
	model, err := p.trust().Open(dir, m.Name, snapshot.Selector{Alias: Champion})
	if err != nil {
		t.Fatal(err)
	}
	bias := make([]float64, model.NumOutputs())
	bytes := int64(0)
	for n := range int64(3) {
		bias[0]++
		at, err := p.PublishDelta(t.Context(), &format.Delta{Created: time.Now(), Bias: bias}, model)
		if err != nil || at.Version != 1 || at.Sequence != n+1 || at.Delta <= 0 || at.Bytes != bytes+at.Delta {
			t.Fatalf("%+v, %v", at, err)
		}
		if bytes = at.Bytes; n == 0 {
			p.Check(7, format.CheckedState{Sequence: 1, PayloadDigest: "of another version"})
		} else {
			p.Check(1, format.CheckedState{Sequence: n, PayloadDigest: "sha256:of " + string(rune('0'+n))})
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	stream, err := snapshot.DirSource{Dir: dir}.Deltas(ctx, m.Name, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for n := range 3 {
		frame, err := format.ReadFrame(stream)
		if err != nil {
			t.Fatal(err)
		}
		d, err := format.DecodeDelta(frame, model.Shape(), p.store.Keys)
		if err != nil {
			t.Fatal(err)
		}
		if model, err = model.Apply(d); err != nil {
			t.Fatal(err)
		}
		if (d.Checked != nil) != (n == 2) || d.KeyID == "" || d.Bias[0] != float64(n+1) {
			t.Errorf("delta %d: checked %v, signed by %q, bias %v", n+1, d.Checked, d.KeyID, d.Bias)
		}
	}
	if _, err := format.ReadFrame(stream); !errors.Is(err, io.EOF) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the last: %v", err)
	}
	p.chosen = true
	if _, err := p.PublishDelta(t.Context(), &format.Delta{Created: time.Now(), Bias: bias}, model); !errors.Is(err,
		ErrNoChain) {
		t.Errorf("a delta after a version that an operator chose: %v", err)
	}
	p.chosen = false
	p.EndDeltas()
	if _, err := p.PublishDelta(t.Context(), &format.Delta{Created: time.Now(), Bias: bias}, model); !errors.Is(err,
		ErrNoChain) ||
		p.HasDeltas() {
		t.Errorf("a delta after the end: %v", err)
	}
}
