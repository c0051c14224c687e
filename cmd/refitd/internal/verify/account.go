package verify

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/refitd/refitd/sketch"
)

// finding is what came of a stretch of a partition.
type finding int

const (
	proved    finding = iota + 1
	different         // state and log disagree
	gone              // the log does not hold all of it
	compacted         // the log holds it, but no longer every record that was read
)

// tally accounts for a stretch as the log has it now. It computes the ledger's digest by its definition, not by its
// code:
// d' = SHA-256(d ‖ offset ‖ CRC ‖ fate) over the applied and rejected records.
type tally struct {
	row sketch.LedgerRow // as after what was counted; at first the account that the stretch begins with
}

func (t *tally) add(p *sketch.Part) {
	l := &t.row
	for i := range p.Records {
		r := &p.Records[i]
		l.Holes += r.Offset - l.Next
		l.Next = r.Offset + 1
		switch r.Fate {
		case sketch.Control:
			l.Control++
			continue
		case sketch.Aborted:
			l.Aborted++
			continue
		case sketch.Rejected:
			l.Rejected++
		case sketch.Applied:
			if l.Applied++; !r.Aside {
				l.Eligible[r.Role]++
				l.Watermark = max(l.Watermark, r.Time)
			}
		}
		b := append(make([]byte, 0, 45), l.Digest[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(r.Offset))
		b = binary.BigEndian.AppendUint32(b, r.CRC)
		l.Digest = sha256.Sum256(append(b, byte(r.Fate)))
		l.LastOffset, l.LastCRC = r.Offset, r.CRC
	}
	l.Holes += p.Next - l.Next
	l.Next = p.Next
}

// judge compares a stretch that was counted from its beginning to its end with the account that the state has of its
// end. lost and double are the events that the log gives and the state does not count, and the other way round.
// compacts says that the broker may compact the topic.
func (t *tally) judge(have *sketch.LedgerRow, compacts bool) (f finding, lost, double int64) {
	want := &t.row
	events := have.Applied - want.Applied
	vanished := want.Holes - have.Holes - (have.Gap - want.Gap)
	same := have.Digest == want.Digest && events == 0 && have.Rejected == want.Rejected &&
		have.Eligible == want.Eligible &&
		have.LastOffset == want.LastOffset && have.LastCRC == want.LastCRC &&
		have.Watermark == want.Watermark
	// Compaction takes records and markers out and never adds one. Markers and aborted records, which no digest binds,
	// it takes where all other records stay, too.
	removed := have.Applied >= want.Applied && have.Rejected >= want.Rejected && have.Control >= want.Control &&
		have.Aborted >= want.Aborted
	exact := have.Control == want.Control && have.Aborted == want.Aborted && vanished == 0
	switch {
	case same && (exact || compacts && removed && have.Holes >= 0):
		return proved, 0, 0
	case have.Gap > want.Gap: // declared lost, and the log has some of it again
		return gone, 0, 0
	case removed && vanished > 0 && have.Digest != want.Digest && have.Records() > want.Records():
		return compacted, 0, 0
	}
	return different, max(0, -events), max(0, events)
}
