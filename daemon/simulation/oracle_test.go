//go:build failpoint && simulation

package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/sketch"
)

// A produced is a record of a transaction that was committed. Offsets between them are markers and what was aborted.
type produced struct {
	offset, at int64 // at in milliseconds
	value      []byte
}

// compareSample makes the sample of the records that the accounts of a state are of, and compares what the state has:
// not in the end alone, when faults have been made good. It is of whatever processes have read or merged, in whatever
// order.
func (w *world) compareSample(m *member, s *sketch.Store) (err error) {
	conf, err := config.Load(m.config)
	if err != nil {
		return err
	}
	model := &conf.Models[0]
	options := ingest.StoreOptions(model)
	options.Seed, options.DrawSeed, options.Lineage = s.Seed(), false, s.Lineage()
	memory, err := sketch.NewMemory(options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, memory.Close()) }()
	sink := ingest.New(model, memory, nil)
	has, err := s.State()
	if err != nil {
		return err
	}
	for i := range has.Partitions {
		l := &has.Partitions[i]
		b := consumer.Batch{
			Topic:         l.Topic,
			Partition:     l.Partition,
			Base:          l.Start,
			Next:          l.Next,
			HighWatermark: l.Next,
			LastStable:    l.Next,
		}
		for _, r := range w.produced[l.Partition] {
			if r.offset >= l.Start && r.offset < l.Next {
				b.Records = append(b.Records, consumer.Record{Offset: r.offset, Timestamp: r.at, Value: r.value})
			}
		}
		if err = memory.BeginAt(l.AtStart()); err == nil {
			sink.Bounds, err = ingest.BoundsOf(s, l.Topic, l.Partition)
		}
		if err = errors.Join(err, sink.Apply(context.Background(), &b)); err != nil {
			return err
		}
	}
	if err := memory.Align(s); err != nil { // a shard has put out what is in no sample of all
		return err
	}
	wants, err := memory.State()
	if err != nil {
		return err
	}
	for i := range has.Partitions {
		if got, want := has.Partitions[i], wants.Partitions[i]; got.Applied != want.Applied ||
			got.Rejected != want.Rejected {
			return fmt.Errorf("%s has %d events and %d rejected of %d records of partition %d, of which %d and %d are",
				m.name, got.Applied, got.Rejected, got.Next, got.Partition, want.Applied, want.Rejected)
		}
	}
	if !maps.Equal(has.RejectedByReason, wants.RejectedByReason) {
		return fmt.Errorf("%s has the reasons %v, its records %v", m.name, has.RejectedByReason, wants.RejectedByReason)
	}
	if has.SampleDigest != wants.SampleDigest {
		only, err := rowsApart(s, memory)
		return errors.Join(fmt.Errorf("%s has another sample than its accounts say: %s", m.name, only), err)
	}
	return nil
}

// rowsApart names the rows that one of two samples has alone.
func rowsApart(s, of *sketch.Store) (string, error) {
	var names [2]map[string]bool
	for i, store := range []*sketch.Store{s, of} {
		sample, err := store.Sample()
		if err != nil {
			return "", err
		}
		names[i] = map[string]bool{}
		for role, rows := range [][]sketch.Row{sample.Train, sample.Select, sample.Gate} {
			for _, r := range rows {
				names[i][fmt.Sprintf("%v %d/%d", sketch.Role(role), r.Partition, r.Offset)] = true
			}
		}
	}
	alone := func(a, b map[string]bool) (out []string) {
		for name := range a {
			if !b[name] {
				out = append(out, name)
			}
		}
		slices.Sort(out)
		return out
	}
	return fmt.Sprintf("it has %v, and lacks %v; thresholds %v, of the records %v", alone(names[0], names[1]),
		alone(names[1], names[0]), s.Thresholds(), of.Thresholds()), nil
}
