package ingest

import (
	"strings"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// PausedPrefix begins the text of a halt in the ledger that ends without an operator.
const PausedPrefix = "paused: "

// WhyOf returns why a partition has halted, or why it is paused, by the text in the ledger. One of both is empty.
func WhyOf(text string) (halted, paused string) {
	if reason, is := strings.CutPrefix(text, PausedPrefix); is {
		return "", reason
	}
	return text, ""
}

// StateOf returns STATE of the contract for a model's store.
func StateOf(model string, s *sketch.State) report.State {
	out := report.State{Model: model, Lineage: s.Lineage, ConfigHash: s.ConfigHash, Format: s.Format,
		Rows:        report.SampleRows{Train: int64(s.Rows[sketch.Train]), Holdout: int64(s.Holdout())},
		SampleBytes: s.SampleBytes, SampleDigest: s.SampleDigest.String(), RejectedByReason: s.RejectedByReason,
		Partitions: []report.PartitionState{}}
	if out.RejectedByReason == nil {
		out.RejectedByReason = map[string]int64{}
	}
	for i := range s.Partitions {
		l := &s.Partitions[i]
		out.Partitions = append(out.Partitions, account(l))
		if _, paused := WhyOf(l.Halted); paused != "" {
			out.Paused = append(out.Paused, report.Paused{Topic: l.Topic, Partition: l.Partition, Reason: paused})
		}
	}
	for i := range s.Archived {
		out.Archived = append(out.Archived, account(&s.Archived[i]))
	}
	if s.UnderFilled {
		out.UnderFilledSince = []report.Cut{}
		for _, p := range s.Since {
			out.UnderFilledSince = append(out.UnderFilledSince,
				report.Cut{Topic: p.Topic, Partition: p.Partition, Next: p.Next})
		}
	}
	for _, m := range s.Forgotten {
		out.Forgotten = append(out.Forgotten,
			report.Subject{Field: m.Field, Subject: m.Hash.String(), Rows: m.Rows, Done: m.Done})
	}
	out.Shards = report.ShardHeads(s.Memo)
	return out
}

func account(l *sketch.LedgerRow) report.PartitionState {
	p := report.PartitionState{
		Topic:       l.Topic,
		Partition:   l.Partition,
		Incarnation: l.Incarnation,
		Start:       l.Start,
		Next:        l.Next,
		Applied:     l.Applied,
		Rejected:    l.Rejected,
		Control:     l.Control,
		Aborted:     l.Aborted,
		Holes:       l.Holes,
		Gap:         l.Gap,
		Digest:      l.Digest.String(),
	}
	for _, n := range l.Rows {
		p.Rows += n
	}
	if l.Halted != "" {
		p.Halted = &l.Halted
	}
	return p
}
