package audit

import (
	"encoding/binary"
	"math"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/storage"
	"github.com/refitd/refitd/sketch/internal/stub"
)

// ScanStubs reads the stubs of a cut in the order of role and identity, which visit gets with their size. Given
// accounts of the cut, which Scan returns, it checks that each outcome was applied, that stubs are above the threshold
// of their side, and that there are no more than there is room for. Without joined outcomes it reads nothing.
func (f *Frame) ScanStubs(c storage.Cut, acc *Accounts,
	visit func(role ledger.Role, id policy.Identity, of *stub.Stub, key []byte) error) error {
	if !f.Settings.Joined() {
		return nil
	}
	var found [ledger.NumRoles]int
	places := make(map[ledger.Incarnation]*ledger.Account)
	if acc != nil {
		for i := range acc.Ledger {
			places[acc.Ledger[i].At()] = &acc.Ledger[i]
		}
	}
	account := func(o *stub.Outcome) *ledger.Account {
		return places[ledger.Incarnation{Partition: ledger.Partition{Topic: o.Topic, Number: o.Partition},
			Count: o.Incarnation}]
	}
	err := c.Each([]byte{codec.PrefixStub}, func(key, value []byte) error {
		role, id, ok := stub.ParseKey(key)
		if !ok {
			return fault.Corrupt("stub has the key %x", key)
		}
		of, err := stub.Decode(key, value)
		if err != nil {
			return err
		}
		if acc != nil {
			if err := of.Check(account); err != nil {
				return err
			}
			r := f.Samples.StubsOf(role)
			if evicted, threshold := acc.Of(r.Index); evicted && r.Rank(id.H(), 1, 0) <= threshold {
				return fault.Corrupt("stub at key %x has a priority below the threshold", key)
			}
			found[role]++
		}
		return visit(role, id, of, key)
	})
	if err != nil || acc == nil || acc.Settings.Unsettled {
		return err
	}
	for role, n := range found {
		if r := f.Samples.StubsOf(ledger.Role(role)); n > r.Capacity {
			return fault.Corrupt("%s has %d keys, capacity %d", r.Name(), n, r.Capacity)
		}
	}
	return nil
}

// AddStub adds the outcomes of a key, which has to be the next in the order of keys. A stub whose outcomes were all
// taken back adds nothing: whether it was ever there is not known where the log was compacted since.
func (d *Digest) AddStub(key []byte, of *stub.Stub) {
	outcomes := of.Outcomes()
	if len(outcomes) == 0 {
		return
	}
	d.hash.Write(key)
	var b []byte
	for i := range outcomes {
		o := &outcomes[i]
		b = binary.BigEndian.AppendUint64(b, uint64(o.Time))
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(o.Value))
		b = binary.BigEndian.AppendUint32(b, o.Incarnation)
		b = binary.BigEndian.AppendUint32(b, uint32(o.Partition))
		b = binary.BigEndian.AppendUint64(b, uint64(o.Offset))
		b = binary.BigEndian.AppendUint16(b, uint16(len(o.Topic)))
		b = append(b, o.Topic...)
	}
	binary.BigEndian.PutUint32(d.size[:], uint32(len(b)))
	d.hash.Write(d.size[:])
	d.hash.Write(b)
}
