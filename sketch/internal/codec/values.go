package codec

import (
	"encoding/binary"

	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// The key of a time bound is that of a checkpoint at its first offset, but for the prefix.
func BoundPrefix(l *ledger.Account) []byte {
	b := CheckpointPrefix(l)
	b[0] = PrefixBound
	return b
}

// AppendBound appends to u64 | latest u64 | CRC u32, big-endian.
func AppendBound(b, key []byte, t *ledger.TimeBound) []byte {
	from := len(b)
	b = binary.BigEndian.AppendUint64(b, uint64(t.To))
	b = binary.BigEndian.AppendUint64(b, uint64(t.Latest))
	return Seal(key, b, from)
}

// DecodeBound reads what AppendBound wrote; the key has the first offset.
func DecodeBound(key, value []byte) (ledger.TimeBound, error) {
	b, err := Unseal(key, value)
	if err != nil {
		return ledger.TimeBound{}, err
	}
	if len(key) < 8 || len(b) != 16 {
		return ledger.TimeBound{}, fault.Corrupt("time bound at key %q has %d bytes", key, len(b))
	}
	return ledger.TimeBound{From: int64(binary.BigEndian.Uint64(key[len(key)-8:])), To: int64(binary.BigEndian.Uint64(b)),
		Latest: int64(binary.BigEndian.Uint64(b[8:]))}, nil
}

// An Entity is what the caller keeps of one entity of a partition in addition to the sample: bytes that change with
// the records, in their transactions. It outlives the incarnation of a topic.
type Entity struct {
	Key   ledger.Digest // SubjectHash of a field and a value, so that what is kept of a forgotten subject can be found
	Value []byte        // at most MaxPayloadBytes; nil takes it away
}

// EachEntity reads the entities below a prefix.
func EachEntity(c storage.Cut, prefix []byte, visit func(topic string, number int32, e Entity) error) error {
	return c.Each(prefix, func(key, value []byte) error {
		b, err := Unseal(key, value)
		if err != nil {
			return err
		}
		tail := len(key) - 4 - len(ledger.Digest{}) // behind the topic and its zero byte
		if tail < 3 || key[tail-1] != 0 {
			return fault.Corrupt("entity at key %x has no partition", key)
		}
		return visit(string(key[1:tail-1]), int32(binary.BigEndian.Uint32(key[tail:])),
			Entity{Key: ledger.Digest(key[tail+4:]), Value: b})
	})
}

// A Schema is what is needed to read records again, in addition to the records: it is stored in the transaction of the
// first record that needs it. Key and Value are the caller's.
type Schema struct {
	Key   []byte
	Value []byte // at most MaxSchemaBytes
}

// EachSchema reads the schemas of a cut, in the order of their keys, until visit fails.
func EachSchema(c storage.Cut, visit func(Schema) error) error {
	return c.Each([]byte{PrefixSchema}, func(key, value []byte) error {
		b, err := Unseal(key, value)
		if err != nil {
			return err
		}
		return visit(Schema{Key: key[1:], Value: b})
	})
}
