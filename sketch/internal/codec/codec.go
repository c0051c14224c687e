package codec

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"maps"
	"math"
	"slices"

	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/policy"
)

// FormatVersion is that of everything in this file. Readers refuse later ones. 2 added what the comments call so: what
// 1 has is the same in 2, so that a state of 1 is read as it is and becomes one of 2 with the settings, the first value
// written.
const FormatVersion = 2

// MaxWeight keeps ln w + t/τ finite.
const MaxWeight = math.MaxFloat64

// Key prefixes; see the package comment.
const (
	PrefixAux        = 'a'
	PrefixCounters   = 'c'
	PrefixEntity     = 'e' // since 2; a state that has none is read as before
	PrefixMarker     = 'f' // since 2
	PrefixArchive    = 'h' // since 2
	PrefixCheckpoint = 'k' // since 2
	PrefixStub       = 'j' // since 2; a state that has none is read as before
	PrefixLedger     = 'l'
	PrefixDeadLetter = 'o' // since 2
	PrefixMerged     = 'm' // since 2; a state that has none is read as before
	PrefixNote       = 'n' // since 2; a state that has none is read as before
	PrefixPurge      = 'p' // of a key that is there while the tables are merged
	PrefixRow        = 'r'
	PrefixSettings   = 's'
	PrefixBound      = 't' // since 2; a state that has none is read as before
	PrefixSchema     = 'w' // since 2; a state that has none is read as before
)

// IsMirrored reports whether a copy of a state elsewhere needs what is at a key: rows, stubs, checkpoints, time bounds
// and schemas.
func IsMirrored(key []byte) bool {
	switch key[0] {
	case PrefixRow, PrefixStub, PrefixCheckpoint, PrefixBound, PrefixSchema:
		return true
	}
	return false
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const CRCBytes = 4

// Seal appends the CRC-32C over key and value[from:].
func Seal(key, value []byte, from int) []byte {
	return binary.BigEndian.AppendUint32(value, Checksum(key, value[from:]))
}

// Unseal checks and removes the CRC.
func Unseal(key, value []byte) ([]byte, error) {
	if n := len(value) - CRCBytes; n >= 0 && binary.BigEndian.Uint32(value[n:]) == Checksum(key, value[:n]) {
		return value[:n], nil
	}
	return nil, fault.Corrupt("checksum of the value at key %q does not match", key)
}

// Checksum returns the CRC-32C over a key and a value.
func Checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// RowKey is the key of a sample row: prefix, role, identity.
type RowKey [2 + len(policy.Identity{})]byte

// MakeRowKey returns the key of a row.
func MakeRowKey(role ledger.Role, id policy.Identity) (k RowKey) {
	k[0], k[1] = PrefixRow, byte(role)
	copy(k[2:], id[:])
	return k
}

// ParseRowKey reads what MakeRowKey made; ok is false of another key.
func ParseRowKey(key []byte) (role ledger.Role, id policy.Identity, ok bool) {
	if len(key) != len(RowKey{}) || key[0] != PrefixRow || ledger.Role(key[1]) >= ledger.NumRoles {
		return 0, id, false
	}
	return ledger.Role(key[1]), policy.Identity(key[2:]), true
}

// A Row is the value of a sample row. topic and payload alias the encoded bytes.
//
//	incarnation u32 | partition u32 | offset u64 | time u64 | weight f64 | topic length u16 | group? | topic | payload | CRC u32     big-endian
//
// The 16 bytes of group are there if the topic length has groupFlag (since 2): samples with quotas or a cap.
type Row struct {
	Incarnation uint32
	Partition   int32
	Offset      int64
	Time        int64
	Weight      float64
	Group       policy.Identity // hash of the class or entity; zero if rows have none
	Topic       []byte
	Payload     []byte
}

const (
	rowHeaderBytes = 4 + 4 + 8 + 8 + 8 + 2
	groupFlag      = 1 << 15 // topic names have at most 249 bytes
)

// RowBytes is the size of a row's key and value.
func RowBytes(topic string, group policy.Identity, payload []byte) int {
	n := len(RowKey{}) + rowHeaderBytes + len(topic) + len(payload) + CRCBytes
	if group != (policy.Identity{}) {
		n += len(group)
	}
	return n
}

// AppendRow appends the value of a row of a topic; r.topic is not used, so that a string need not become bytes.
func AppendRow(b, key []byte, topic string, r *Row) []byte {
	from := len(b)
	b = binary.BigEndian.AppendUint32(b, r.Incarnation)
	b = binary.BigEndian.AppendUint32(b, uint32(r.Partition))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Offset))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Time))
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(r.Weight))
	if r.Group == (policy.Identity{}) {
		b = binary.BigEndian.AppendUint16(b, uint16(len(topic)))
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(len(topic))|groupFlag)
		b = append(b, r.Group[:]...)
	}
	b = append(b, topic...)
	b = append(b, r.Payload...)
	return Seal(key, b, from)
}

// DecodeRow returns a row that aliases value.
func DecodeRow(key, value []byte) (Row, error) {
	b, err := Unseal(key, value)
	if err != nil {
		return Row{}, err
	}
	var r Row
	if len(b) < rowHeaderBytes {
		return r, fault.Corrupt("row at key %x has %d bytes", key, len(b))
	}
	r.Incarnation = binary.BigEndian.Uint32(b)
	r.Partition = int32(binary.BigEndian.Uint32(b[4:]))
	r.Offset = int64(binary.BigEndian.Uint64(b[8:]))
	r.Time = int64(binary.BigEndian.Uint64(b[16:]))
	r.Weight = math.Float64frombits(binary.BigEndian.Uint64(b[24:]))
	n := int(binary.BigEndian.Uint16(b[32:]))
	b = b[rowHeaderBytes:]
	if n&groupFlag != 0 {
		n &^= groupFlag
		if copy(r.Group[:], b) < len(r.Group) || r.Group == (policy.Identity{}) {
			return r, fault.Corrupt("row at key %x has no group", key)
		}
		b = b[len(r.Group):]
	}
	if n > len(b) || !(r.Weight > 0 && r.Weight <= MaxWeight) {
		return r, fault.Corrupt("row at key %x: topic of %d bytes, weight %g", key, n, r.Weight)
	}
	r.Topic, r.Payload = b[:n], b[n:]
	return r, nil
}

func ledgerKey(topic string, partition int32) []byte {
	b := append([]byte{PrefixLedger}, topic...)
	return binary.BigEndian.AppendUint32(append(b, 0), uint32(partition))
}

// key is where the row is stored: the current one of a partition, or that of an incarnation that is over.
func AccountKey(l *ledger.Account) []byte {
	b := ledgerKey(l.Topic, l.Partition)
	if l.Archived {
		b[0] = PrefixArchive
		b = binary.BigEndian.AppendUint32(b, l.Incarnation)
	}
	return b
}

// CheckpointPrefix is of the checkpoints of the row's incarnation; checkpointKey of the one at its next.
func CheckpointPrefix(l *ledger.Account) []byte {
	b := ledgerKey(l.Topic, l.Partition)
	b[0] = PrefixCheckpoint
	return binary.BigEndian.AppendUint32(b, l.Incarnation)
}

// CheckpointKey is where the checkpoint of an account at an offset is stored.
func CheckpointKey(l *ledger.Account, next int64) []byte {
	return binary.BigEndian.AppendUint64(CheckpointPrefix(l), uint64(next))
}

// KeyTail is what follows the topic and its zero byte in the keys of ledger rows.
var KeyTail = map[byte]int{PrefixLedger: 4, PrefixArchive: 8, PrefixCheckpoint: 16}

// A ledger row has ledgerInts 64-bit integers and, but for the halt text and the CRC, ledgerFixedBytes.
const (
	ledgerInts   = 10 + 2*int(ledger.NumRoles)
	AccountBytes = 4 + 4 + 32 + 8*ledgerInts
)

func accountInts(l *ledger.Account) [ledgerInts]*int64 {
	return [...]*int64{
		&l.Start, &l.Next, &l.Applied, &l.Rejected, &l.Control, &l.Aborted, &l.Holes, &l.Gap, &l.LastOffset, &l.Watermark,
		&l.Eligible[ledger.Train], &l.Eligible[ledger.Select], &l.Eligible[ledger.Gate],
		&l.Rows[ledger.Train], &l.Rows[ledger.Select], &l.Rows[ledger.Gate],
	}
}

// AppendAccount appends incarnation u32 | CRC of the last record u32 | digest | the integers of ints | halt text | CRC
// u32.
func AppendAccount(b, key []byte, l *ledger.Account) []byte {
	from := len(b)
	b = binary.BigEndian.AppendUint32(b, l.Incarnation)
	b = binary.BigEndian.AppendUint32(b, l.LastCRC)
	b = append(b, l.Digest[:]...)
	for _, v := range accountInts(l) {
		b = binary.BigEndian.AppendUint64(b, uint64(*v))
	}
	b = append(b, l.Halted...)
	return Seal(key, b, from)
}

// DecodeAccount reads an account, a checkpoint or an account of an incarnation that is over, as the key says.
func DecodeAccount(key, value []byte) (ledger.Account, error) {
	var l ledger.Account
	b, err := Unseal(key, value)
	if err != nil {
		return l, err
	}
	if len(key) == 0 || KeyTail[key[0]] == 0 || len(key) < 3+KeyTail[key[0]] || len(b) < AccountBytes {
		return l, fault.Corrupt("ledger row at key %q has %d bytes", key, len(b))
	}
	tail := len(key) - KeyTail[key[0]]
	l.Topic, l.Archived = string(key[1:tail-1]), key[0] == PrefixArchive
	l.Partition = int32(binary.BigEndian.Uint32(key[tail:]))
	l.Incarnation = binary.BigEndian.Uint32(b)
	l.LastCRC = binary.BigEndian.Uint32(b[4:])
	copy(l.Digest[:], b[8:])
	for i, v := range accountInts(&l) {
		*v = int64(binary.BigEndian.Uint64(b[40+8*i:]))
	}
	l.Halted = string(b[AccountBytes:])
	return l, nil
}

// Counters are the totals that belong to no partition.
type Counters struct {
	Evicted   [ledger.NumRoles]bool
	Threshold [ledger.NumRoles]uint64
	Reasons   map[string]int64
	Classes   []ClassCount // of the quotas, in their order
}

// A ClassCount is of the sample of a class with a quota.
type ClassCount struct {
	Evicted   bool
	Threshold uint64
	Eligible  int64
}

// AppendCounters appends, for each role, evicted u8 | threshold u64, then for each reason in order length u8 | reason |
// count u64, then, if there are quotas (since 2), a zero byte and for each evicted u8 | threshold u64 | eligible u64,
// and the CRC.
func AppendCounters(b, key []byte, c *Counters) []byte {
	from := len(b)
	for role := range ledger.NumRoles {
		b = appendThreshold(b, c.Evicted[role], c.Threshold[role])
	}
	for _, reason := range slices.Sorted(maps.Keys(c.Reasons)) {
		b = append(append(b, byte(len(reason))), reason...)
		b = binary.BigEndian.AppendUint64(b, uint64(c.Reasons[reason]))
	}
	if len(c.Classes) > 0 {
		b = append(b, 0)
	}
	for _, class := range c.Classes {
		b = appendThreshold(b, class.Evicted, class.Threshold)
		b = binary.BigEndian.AppendUint64(b, uint64(class.Eligible))
	}
	return Seal(key, b, from)
}

const thresholdBytes = 1 + 8

func appendThreshold(b []byte, evicted bool, threshold uint64) []byte {
	flag := byte(0)
	if evicted {
		flag = 1
	}
	return binary.BigEndian.AppendUint64(append(b, flag), threshold)
}

// DecodeCounters reads what AppendCounters wrote.
func DecodeCounters(key, value []byte) (Counters, error) {
	c := Counters{Reasons: map[string]int64{}}
	b, err := Unseal(key, value)
	if err != nil {
		return c, err
	}
	if len(b) < thresholdBytes*int(ledger.NumRoles) {
		return c, fault.Corrupt("counters have %d bytes", len(b))
	}
	for role := range ledger.NumRoles {
		c.Evicted[role], c.Threshold[role] = b[0] != 0, binary.BigEndian.Uint64(b[1:])
		b = b[thresholdBytes:]
	}
	for len(b) > 0 && b[0] != 0 {
		n := int(b[0])
		if len(b) < 1+n+8 {
			return c, fault.Corrupt("counters end inside a reason")
		}
		c.Reasons[string(b[1:1+n])] = int64(binary.BigEndian.Uint64(b[1+n:]))
		b = b[1+n+8:]
	}
	if len(b) == 0 {
		return c, nil
	}
	for b = b[1:]; len(b) >= thresholdBytes+8; b = b[thresholdBytes+8:] {
		c.Classes = append(c.Classes,
			ClassCount{b[0] != 0, binary.BigEndian.Uint64(b[1:]), int64(binary.BigEndian.Uint64(b[9:]))})
	}
	if len(b) > 0 || len(c.Classes) == 0 {
		return c, fault.Corrupt("counters end inside a class")
	}
	return c, nil
}

// AppendSettings appends JSON and the CRC.
func AppendSettings(b, key []byte, s *policy.Settings) []byte {
	from := len(b)
	text, err := json.Marshal(s)
	if err != nil {
		panic("sketch: settings cannot be encoded: " + err.Error()) // only numbers and strings
	}
	return Seal(key, append(b, text...), from)
}

// DecodeSettings reads what AppendSettings wrote.
func DecodeSettings(key, value []byte) (policy.Settings, error) {
	var s policy.Settings
	b, err := Unseal(key, value)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fault.Corrupt("settings: %v", err)
	}
	return s, nil
}

// AppendMarker appends JSON and the CRC.
func AppendMarker(b, key []byte, m *ledger.Marker) []byte {
	from := len(b)
	text, err := json.Marshal(m)
	if err != nil {
		panic("sketch: marker cannot be encoded: " + err.Error()) // only numbers and strings
	}
	return Seal(key, append(b, text...), from)
}

// DecodeMarker reads what AppendMarker wrote, and refuses the marker of another subject than that of the key.
func DecodeMarker(key, value []byte) (ledger.Marker, error) {
	var m ledger.Marker
	b, err := Unseal(key, value)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(b, &m); err != nil || len(key) != 1+len(m.Hash) {
		return m, fault.Corrupt("marker at key %x is not readable", key)
	}
	if string(m.Hash[:]) != string(key[1:]) {
		return m, fault.Corrupt("marker at key %x is of %v", key, m.Hash)
	}
	return m, nil
}

// Of returns the threshold of a sample of reservoir.Samples.
func (c *Counters) Of(sample int) (evicted bool, threshold uint64) {
	if sample < int(ledger.NumRoles) {
		return c.Evicted[sample], c.Threshold[sample]
	}
	class := &c.Classes[sample-int(ledger.NumRoles)]
	return class.Evicted, class.Threshold
}

// An entity's key is that of its partition's ledger row, but for the prefix, and its own.
func EntityPrefix(topic string, number int32) []byte {
	b := ledgerKey(topic, number)
	b[0] = PrefixEntity
	return b
}

// TopicEntities is the prefix of the entities of all partitions of a topic.
func TopicEntities(topic string) []byte { return append(append([]byte{PrefixEntity}, topic...), 0) }

// SchemaKey is where a schema is stored that the caller knows by key.
func SchemaKey(key []byte) []byte { return append([]byte{PrefixSchema}, key...) }
