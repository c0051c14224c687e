package sketch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/storage"
)

func (h *history) step(kind string) error {
	p := among(h.rng, h.current())
	log := h.logs[p]
	switch kind {
	case "produce":
		h.produce(p, h.rng.IntN(3) == 1, false)
	case "abort":
		h.produce(p, true, true)
	case "compact":
		for k := range log.records {
			log.records[k].compacted = log.records[k].compacted || h.rng.IntN(5) == 0
		}
	case "truncate":
		if !h.broken.noTruncation {
			log.start += int64(h.rng.IntN(len(log.records) - int(log.start) + 1))
		}
	case "deliver":
		return h.deliver(p)
	case "crash before commit", "crash after commit":
		h.j.until, h.j.durable = h.rng.IntN(4), kind == "crash after commit"
		err := among(h.rng, []func() error{func() error { return h.deliver(p) }, h.resize, h.forget})()
		h.j.until = -1
		return err
	case "reopen":
		return h.restart(false, nil, 0)
	case "lose suffix":
		if h.reopen == nil {
			h.j.lose(1 + h.rng.IntN(6))
			return h.restart(true, nil, 0)
		}
	case "copy":
		h.copy()
	case "join":
		return h.join()
	case "stale batch":
		return h.applyStale(p)
	case "resize":
		return h.resize()
	case "forget":
		return h.forget()
	case "recreate":
		return h.recreate(p.topic)
	case "rebuild":
		return h.rebuild()
	case "train":
		return h.train()
	}
	return nil
}

// produce appends records, perhaps as a transaction, perhaps one that is aborted.
func (h *history) produce(p *oraclePartition, transaction, aborted bool) {
	log := h.logs[p]
	add := func(r logRecord) {
		r.Offset, r.CRC, r.Weight = int64(len(log.records)), h.rng.Uint32(), 1
		r.Time = int64(h.rng.IntN(4000)) - 1000
		r.user = "u" + strconv.Itoa(h.rng.IntN(12)*h.rng.IntN(2)) // every second event is of one user
		if h.o.Weighted {
			r.Weight = 0.1 + h.rng.ExpFloat64()
		}
		if h.o.Identity != "" {
			r.Identity = strconv.AppendInt([]byte{}, int64(h.rng.IntN(40)), 10)
		}
		if h.o.HoldoutBy != "" {
			r.HoldoutKey = []byte(r.user)
		}
		if h.o.CapBy != "" {
			r.Group = []byte(r.user)
		}
		if h.o.Quotas != nil {
			r.Group = []byte("c" + strconv.Itoa(h.rng.IntN(4)))
		}
		r.Payload = fmt.Appendf(nil, "%s %d@%s/%d", r.user, r.Offset, p.topic, p.number)
		log.records = append(log.records, r)
	}
	for range 1 + h.rng.IntN(20) {
		r := logRecord{Record: Record{Fate: Applied}}
		switch {
		case aborted:
			r.Fate = Aborted
		case h.rng.IntN(8) == 0:
			r.Fate, r.Reason = Rejected, among(h.rng, []string{"not_json", "wrong_type", "label_range"})
		}
		add(r)
	}
	if transaction {
		add(logRecord{Record: Record{Fate: Control}})
	}
}

// deliver reads from any offset up to next, any length, and applies it.
func (h *history) deliver(p *oraclePartition) error {
	log, next := h.logs[p], p.next()
	from := next
	if h.rng.IntN(3) == 0 {
		from = p.start + h.rng.Int64N(next-p.start+1)
	}
	from = max(from, log.start)
	to := max(from, min(int64(len(log.records)), from+int64(h.rng.IntN(40))))
	part := &Part{Topic: p.topic, Partition: p.number, LogStart: log.start, Base: from, Next: to}
	for k := from; k < to; k++ {
		r := log.records[k].Record
		switch {
		case log.records[k].compacted, h.broken.skipAtResume && log.resume && k == next:
			continue
		case h.broken.controlApplied && r.Fate == Control, h.broken.abortedApplied && r.Fate == Aborted:
			r.Fate = Applied
		}
		part.Records = append(part.Records, r)
	}
	log.resume = false
	if h.rng.IntN(3) == 0 {
		stale := *part
		stale.Records = slices.Clone(part.Records)
		log.stale = &stale
	}
	return h.apply(p, part)
}

// applyStale applies a batch that was fetched some time ago, which the consumer should have dropped.
func (h *history) applyStale(p *oraclePartition) error {
	if h.logs[p].stale == nil {
		return nil
	}
	part := *h.logs[p].stale
	part.Records = slices.Clone(part.Records)
	return h.apply(p, &part)
}

func (h *history) apply(p *oraclePartition, part *Part) error {
	log, next := h.logs[p], p.next()
	for i := range part.Records {
		r := &part.Records[i]
		r.Forgotten = r.Fate == Applied &&
			h.store.Forgets(p.topic, p.number, r.Offset, "user", []byte(log.records[r.Offset].user))
	}
	if h.rng.IntN(2) == 0 {
		h.store.Classify(part)
	}
	var aux []byte
	if h.rng.IntN(2) == 0 {
		aux = strconv.AppendUint(nil, h.rng.Uint64(), 16)
	}
	err := h.store.ApplyAll(halves(part), aux)
	var gap *GapError
	switch {
	case errors.As(err, &gap):
		if part.LogStart <= next || gap.Next != next || gap.LogStart != part.LogStart {
			return err
		}
		if h.rng.IntN(2) == 0 {
			return nil // halted; perhaps accepted next time
		}
		h.j.until = -1
		for k := next; k < part.LogStart; k++ {
			p.got = append(p.got, outcome{gap: true})
		}
		return h.store.AcceptGap(p.topic, p.number, part.LogStart)
	case errors.Is(err, ErrPart) && part.Base > next:
		return nil // a batch from before the state went back
	case err != nil && !errors.Is(err, errCrash):
		return err
	}
	// What should have been applied, whatever was.
	records := part.Records
	for k := next; k < part.Next; k++ {
		i := slices.IndexFunc(records, func(r Record) bool { return r.Offset == k })
		switch {
		case k < part.Base || k < part.LogStart:
			p.got = append(p.got, outcome{bad: true})
		case i < 0 && (log.records[k].compacted || part.Base < next):
			p.got = append(p.got, outcome{hole: true})
		default:
			p.got = append(p.got, outcome{record: &log.records[k]})
		}
	}
	if err == nil {
		log.committed = p.next()
		if aux != nil {
			h.oracle.aux = aux
		}
		return nil
	}
	if again := h.store.Apply(part, aux); !errors.Is(again, errCrash) {
		return fmt.Errorf("a store that failed answered %v", again)
	}
	// Any number of pieces may be durable, aux with the last alone.
	if err := h.restart(false, p, next); err != nil {
		return err
	}
	if aux != nil && p.next() == max(next, part.Next) && bytes.Equal(h.store.Aux(), aux) {
		h.oracle.aux = aux
	}
	return nil
}

// halves cuts a third of the parts in two.
func halves(p *Part) []*Part {
	n := len(p.Records)
	if n < 2 || n%3 != 0 {
		return []*Part{p}
	}
	first, second := *p, *p
	first.Records, second.Records = p.Records[:n/2:n/2], p.Records[n/2:]
	first.Next = second.Records[0].Offset
	second.Base = first.Next
	return []*Part{&first, &second}
}

// train takes a cut, which is not behind the last one.
func (h *history) train() error {
	sample, err := h.store.Sample()
	if err != nil {
		return err
	}
	for _, was := range h.cut {
		for _, is := range sample.Cut {
			if is.Topic == was.Topic && is.Partition == was.Partition && is.Incarnation == was.Incarnation &&
				is.Next < was.Next {
				return fmt.Errorf("cut went back from %v to %v", was, is)
			}
		}
	}
	h.cut = sample.Cut
	return nil
}

// decided is called when a decision was stored or the machine crashed during that. After a crash the state may have
// the decision, or not.
func (h *history) decided(err error) error {
	if err != nil {
		if !errors.Is(err, errCrash) {
			return err
		}
		err = h.restart(false, nil, 0)
	} else {
		h.life = h.next
		h.lives[h.store.Lineage()] = h.next
	}
	h.next = nil
	return err
}

// resize opens the state with other sizes.
func (h *history) resize() error {
	o := h.o
	o.Size, o.HoldoutSize = 1+h.rng.IntN(20), 2+h.rng.IntN(9)
	if o.CapBy != "" {
		o.Size, o.HoldoutSize = min(o.Size, h.o.Size), min(o.HoldoutSize, h.o.HoldoutSize)
	}
	if o.Size == h.o.Size && o.HoldoutSize == h.o.HoldoutSize {
		return nil
	}
	h.next = h.decide(func(l *life) {
		l.o = o
		for sample, capacity := range (&oracle{life: l}).samples() {
			l.partial = l.partial || capacity > h.oracle.samples()[sample]
		}
	})
	if o.CapBy != "" {
		after := oracle{life: h.next, partitions: h.partitions}
		kept := after.view().kept
		for sample, capacity := range after.samples() {
			if _, cut := h.next.floor[sample]; cut && len(kept[sample]) < capacity {
				h.next.partial = true
			}
		}
	}
	s, err := load(context.Background(), h.j, &o,
		func(stored *policy.Settings) (policy.Settings, error) { return stored.Succeed(o.settings(), false) })
	if err == nil {
		h.store = s
		for _, log := range h.logs {
			log.resume = true
		}
	}
	return h.decided(err)
}

// forget erases a user.
func (h *history) forget() error {
	user := "u" + strconv.Itoa(h.rng.IntN(12)*h.rng.IntN(2))
	h.next = h.decide(func(l *life) {
		cut := map[*oraclePartition]int64{}
		for _, p := range h.partitions {
			cut[p] = p.next()
			if p.over {
				cut[p] = math.MaxInt64
			}
		}
		l.erased, l.partial = append(l.erased, erasure{user, cut}), true
	})
	_, err := h.store.ForgetSubject("user", []byte(user))
	if err == nil {
		_, err = h.store.Erase(context.Background(), userOf)
	}
	return h.decided(err)
}

// recreate deletes a topic and makes it again, which the operator accepts.
func (h *history) recreate(topic string) error {
	if h.rng.IntN(3) != 0 {
		return nil
	}
	starts := map[int32]int64{}
	var made []*oraclePartition
	for _, p := range h.current() {
		if p.topic == topic {
			p.over = true
			again := &oraclePartition{
				topic:       topic,
				number:      p.number,
				incarnation: p.incarnation + 1,
				start:       int64(h.rng.IntN(2) * h.rng.IntN(9)),
			}
			starts[p.number], made = again.start, append(made, again)
			log := &partitionLog{start: again.start, committed: again.start}
			for range again.start {
				log.records = append(log.records, logRecord{compacted: true})
			}
			h.logs[again] = log
		}
	}
	h.partitions = append(h.partitions, made...)
	return h.store.RaiseIncarnation(topic, starts)
}

// recreateAgain brings a state that has lost its end to the topics that there are now.
func (h *history) recreateAgain() error {
	for _, p := range h.partitions { // in the order of incarnations
		if h.store.ledger.Place(p.topic, p.number, p.incarnation) < 0 {
			starts := map[int32]int64{}
			for _, q := range h.partitions {
				if q.topic == p.topic && q.incarnation == p.incarnation {
					starts[q.number] = q.start
				}
			}
			var err error
			if newest, begun := h.store.ledger.Incarnation(p.topic); !begun || newest == p.incarnation {
				err = h.store.Begin(p.topic, p.number, p.start)
			} else {
				err = h.store.RaiseIncarnation(p.topic, starts)
			}
			if err != nil {
				return err
			}
		}
	}
	for _, p := range h.partitions {
		if p.over {
			p.got = p.got[:h.store.ledger.At(h.store.ledger.Place(p.topic, p.number, p.incarnation)).Next-p.start]
		}
	}
	return nil
}

// rebuild reads everything anew into an empty state, which keeps what was forgotten.
func (h *history) rebuild() error {
	if h.reopen != nil || h.rng.IntN(3) != 0 {
		return nil
	}
	o := h.o
	w, err := h.store.witnessOf()
	if err != nil {
		return err
	}
	o.Forgotten = w.Carried()
	if h.broken.forgetsMarkers {
		o.Forgotten = nil
	}
	next := &life{o: h.o, erased: h.erased, partial: len(h.erased) > 0}
	h.partitions, h.lives, h.copied, h.cut = h.current(), map[string]*life{}, nil, nil
	for _, p := range h.partitions {
		p.got, p.incarnation = nil, 0
	}
	h.j = &journal{Backend: storage.NewMemory(), until: -1, broken: h.broken}
	s, err := load(context.Background(), h.j, &o, func(*policy.Settings) (policy.Settings, error) {
		chosen := o.settings()
		chosen.Draw(false)
		return chosen, nil
	})
	if err != nil {
		return err
	}
	h.store, h.life, h.oracle.aux = s, next, nil
	h.lives[s.Lineage()] = next
	for _, p := range h.partitions {
		if err := s.Begin(p.topic, p.number, p.start); err != nil {
			return err
		}
	}
	return nil
}
