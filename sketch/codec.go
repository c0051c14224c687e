package sketch

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

// formatVersion is that of everything in this file. Readers refuse later ones. 2 added what the comments call so: what
// 1 has is the same in 2, so that a state of 1 is read as it is and becomes one of 2 with the settings, the first value
// written.
const formatVersion = 2

// maxWeight keeps ln w + t/τ finite.
const maxWeight = math.MaxFloat64

// maxHaltBytes bounds the text of a halt.
const maxHaltBytes = 1024

// Key prefixes; see the package comment.
const (
	prefixAux        = 'a'
	prefixCounters   = 'c'
	prefixEntity     = 'e' // since 2; a state that has none is read as before
	prefixMarker     = 'f' // since 2
	prefixArchive    = 'h' // since 2
	prefixCheckpoint = 'k' // since 2
	prefixLedger     = 'l'
	prefixDeadLetter = 'o' // since 2
	prefixMerged     = 'm' // since 2; a state that has none is read as before
	prefixNote       = 'n' // since 2; a state that has none is read as before
	prefixPurge      = 'p' // of a key that is there while the tables are merged
	prefixRow        = 'r'
	prefixSettings   = 's'
	prefixBound      = 't' // since 2; a state that has none is read as before
	prefixSchema     = 'w' // since 2; a state that has none is read as before
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const crcBytes = 4

// seal appends the CRC-32C over key and value[from:].
func seal(key, value []byte, from int) []byte {
	return binary.BigEndian.AppendUint32(value, checksum(key, value[from:]))
}

// unseal checks and removes the CRC.
func unseal(key, value []byte) ([]byte, error) {
	if n := len(value) - crcBytes; n >= 0 && binary.BigEndian.Uint32(value[n:]) == checksum(key, value[:n]) {
		return value[:n], nil
	}
	return nil, fault.Corrupt("checksum of the value at key %q does not match", key)
}

func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// rowKey is the key of a sample row: prefix, role, identity.
type rowKey [2 + len(policy.Identity{})]byte

func makeRowKey(role Role, id policy.Identity) (k rowKey) {
	k[0], k[1] = prefixRow, byte(role)
	copy(k[2:], id[:])
	return k
}

func parseRowKey(key []byte) (role Role, id policy.Identity, ok bool) {
	if len(key) != len(rowKey{}) || key[0] != prefixRow || Role(key[1]) >= NumRoles {
		return 0, id, false
	}
	return Role(key[1]), policy.Identity(key[2:]), true
}

// A storedRow is the value of a sample row. topic and payload alias the encoded bytes.
//
//	incarnation u32 | partition u32 | offset u64 | time u64 | weight f64 | topic length u16 | group? | topic | payload | CRC u32     big-endian
//
// The 16 bytes of group are there if the topic length has groupFlag (since 2): samples with quotas or a cap.
type storedRow struct {
	incarnation uint32
	partition   int32
	offset      int64
	time        int64
	weight      float64
	group       policy.Identity // hash of the class or entity; zero if rows have none
	topic       []byte
	payload     []byte
}

const (
	rowHeaderBytes = 4 + 4 + 8 + 8 + 8 + 2
	groupFlag      = 1 << 15 // topic names have at most 249 bytes
)

// storedRowBytes is the size of a row's key and value.
func storedRowBytes(topic string, group policy.Identity, payload []byte) int {
	n := len(rowKey{}) + rowHeaderBytes + len(topic) + len(payload) + crcBytes
	if group != (policy.Identity{}) {
		n += len(group)
	}
	return n
}

func appendRow(b, key []byte, l *ledger.Account, r *Record) []byte {
	from := len(b)
	b = binary.BigEndian.AppendUint32(b, l.Incarnation)
	b = binary.BigEndian.AppendUint32(b, uint32(l.Partition))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Offset))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Time))
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(r.Weight))
	if r.group == (policy.Identity{}) {
		b = binary.BigEndian.AppendUint16(b, uint16(len(l.Topic)))
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(len(l.Topic))|groupFlag)
		b = append(b, r.group[:]...)
	}
	b = append(b, l.Topic...)
	b = append(b, r.Payload...)
	return seal(key, b, from)
}

func decodeRow(key, value []byte) (storedRow, error) {
	b, err := unseal(key, value)
	if err != nil {
		return storedRow{}, err
	}
	var r storedRow
	if len(b) < rowHeaderBytes {
		return r, fault.Corrupt("row at key %x has %d bytes", key, len(b))
	}
	r.incarnation = binary.BigEndian.Uint32(b)
	r.partition = int32(binary.BigEndian.Uint32(b[4:]))
	r.offset = int64(binary.BigEndian.Uint64(b[8:]))
	r.time = int64(binary.BigEndian.Uint64(b[16:]))
	r.weight = math.Float64frombits(binary.BigEndian.Uint64(b[24:]))
	n := int(binary.BigEndian.Uint16(b[32:]))
	b = b[rowHeaderBytes:]
	if n&groupFlag != 0 {
		n &^= groupFlag
		if copy(r.group[:], b) < len(r.group) || r.group == (policy.Identity{}) {
			return r, fault.Corrupt("row at key %x has no group", key)
		}
		b = b[len(r.group):]
	}
	if n > len(b) || !(r.weight > 0 && r.weight <= maxWeight) {
		return r, fault.Corrupt("row at key %x: topic of %d bytes, weight %g", key, n, r.weight)
	}
	r.topic, r.payload = b[:n], b[n:]
	return r, nil
}

func ledgerKey(topic string, partition int32) []byte {
	b := append([]byte{prefixLedger}, topic...)
	return binary.BigEndian.AppendUint32(append(b, 0), uint32(partition))
}

// key is where the row is stored: the current one of a partition, or that of an incarnation that is over.
func accountKey(l *ledger.Account) []byte {
	b := ledgerKey(l.Topic, l.Partition)
	if l.Archived {
		b[0] = prefixArchive
		b = binary.BigEndian.AppendUint32(b, l.Incarnation)
	}
	return b
}

// checkpointPrefix is of the checkpoints of the row's incarnation; checkpointKey of the one at its next.
func checkpointPrefix(l *ledger.Account) []byte {
	b := ledgerKey(l.Topic, l.Partition)
	b[0] = prefixCheckpoint
	return binary.BigEndian.AppendUint32(b, l.Incarnation)
}

func checkpointKey(l *ledger.Account, next int64) []byte {
	return binary.BigEndian.AppendUint64(checkpointPrefix(l), uint64(next))
}

// keyTail is what follows the topic and its zero byte in the keys of ledger rows.
var keyTail = map[byte]int{prefixLedger: 4, prefixArchive: 8, prefixCheckpoint: 16}

// A ledger row has ledgerInts 64-bit integers and, but for the halt text and the CRC, ledgerFixedBytes.
const (
	ledgerInts       = 10 + 2*int(NumRoles)
	ledgerFixedBytes = 4 + 4 + 32 + 8*ledgerInts
)

func accountInts(l *ledger.Account) [ledgerInts]*int64 {
	return [...]*int64{
		&l.Start, &l.Next, &l.Applied, &l.Rejected, &l.Control, &l.Aborted, &l.Holes, &l.Gap, &l.LastOffset, &l.Watermark,
		&l.Eligible[Train], &l.Eligible[Select], &l.Eligible[Gate], &l.Rows[Train], &l.Rows[Select], &l.Rows[Gate],
	}
}

// appendLedger appends incarnation u32 | CRC of the last record u32 | digest | the integers of ints | halt text | CRC
// u32.
func appendLedger(b, key []byte, l *ledger.Account) []byte {
	from := len(b)
	b = binary.BigEndian.AppendUint32(b, l.Incarnation)
	b = binary.BigEndian.AppendUint32(b, l.LastCRC)
	b = append(b, l.Digest[:]...)
	for _, v := range accountInts(l) {
		b = binary.BigEndian.AppendUint64(b, uint64(*v))
	}
	b = append(b, l.Halted...)
	return seal(key, b, from)
}

func decodeLedger(key, value []byte) (ledger.Account, error) {
	var l ledger.Account
	b, err := unseal(key, value)
	if err != nil {
		return l, err
	}
	if len(key) == 0 || keyTail[key[0]] == 0 || len(key) < 3+keyTail[key[0]] || len(b) < ledgerFixedBytes {
		return l, fault.Corrupt("ledger row at key %q has %d bytes", key, len(b))
	}
	tail := len(key) - keyTail[key[0]]
	l.Topic, l.Archived = string(key[1:tail-1]), key[0] == prefixArchive
	l.Partition = int32(binary.BigEndian.Uint32(key[tail:]))
	l.Incarnation = binary.BigEndian.Uint32(b)
	l.LastCRC = binary.BigEndian.Uint32(b[4:])
	copy(l.Digest[:], b[8:])
	for i, v := range accountInts(&l) {
		*v = int64(binary.BigEndian.Uint64(b[40+8*i:]))
	}
	l.Halted = string(b[ledgerFixedBytes:])
	return l, nil
}

// counters are the totals that belong to no partition.
type counters struct {
	evicted   [NumRoles]bool
	threshold [NumRoles]uint64
	reasons   map[string]int64
	classes   []classCount // of the quotas, in their order
}

// A classCount is of the sample of a class with a quota.
type classCount struct {
	evicted   bool
	threshold uint64
	eligible  int64
}

// appendCounters appends, for each role, evicted u8 | threshold u64, then for each reason in order length u8 | reason |
// count u64, then, if there are quotas (since 2), a zero byte and for each evicted u8 | threshold u64 | eligible u64,
// and the CRC.
func appendCounters(b, key []byte, c *counters) []byte {
	from := len(b)
	for role := range NumRoles {
		b = appendThreshold(b, c.evicted[role], c.threshold[role])
	}
	for _, reason := range slices.Sorted(maps.Keys(c.reasons)) {
		b = append(append(b, byte(len(reason))), reason...)
		b = binary.BigEndian.AppendUint64(b, uint64(c.reasons[reason]))
	}
	if len(c.classes) > 0 {
		b = append(b, 0)
	}
	for _, class := range c.classes {
		b = appendThreshold(b, class.evicted, class.threshold)
		b = binary.BigEndian.AppendUint64(b, uint64(class.eligible))
	}
	return seal(key, b, from)
}

const thresholdBytes = 1 + 8

func appendThreshold(b []byte, evicted bool, threshold uint64) []byte {
	flag := byte(0)
	if evicted {
		flag = 1
	}
	return binary.BigEndian.AppendUint64(append(b, flag), threshold)
}

func decodeCounters(key, value []byte) (counters, error) {
	c := counters{reasons: map[string]int64{}}
	b, err := unseal(key, value)
	if err != nil {
		return c, err
	}
	if len(b) < thresholdBytes*int(NumRoles) {
		return c, fault.Corrupt("counters have %d bytes", len(b))
	}
	for role := range NumRoles {
		c.evicted[role], c.threshold[role] = b[0] != 0, binary.BigEndian.Uint64(b[1:])
		b = b[thresholdBytes:]
	}
	for len(b) > 0 && b[0] != 0 {
		n := int(b[0])
		if len(b) < 1+n+8 {
			return c, fault.Corrupt("counters end inside a reason")
		}
		c.reasons[string(b[1:1+n])] = int64(binary.BigEndian.Uint64(b[1+n:]))
		b = b[1+n+8:]
	}
	if len(b) == 0 {
		return c, nil
	}
	for b = b[1:]; len(b) >= thresholdBytes+8; b = b[thresholdBytes+8:] {
		c.classes = append(c.classes,
			classCount{b[0] != 0, binary.BigEndian.Uint64(b[1:]), int64(binary.BigEndian.Uint64(b[9:]))})
	}
	if len(b) > 0 || len(c.classes) == 0 {
		return c, fault.Corrupt("counters end inside a class")
	}
	return c, nil
}

func appendSettings(b, key []byte, s *policy.Settings) []byte {
	from := len(b)
	text, err := json.Marshal(s)
	if err != nil {
		panic("sketch: settings cannot be encoded: " + err.Error()) // only numbers and strings
	}
	return seal(key, append(b, text...), from)
}

func decodeSettings(key, value []byte) (policy.Settings, error) {
	var s policy.Settings
	b, err := unseal(key, value)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fault.Corrupt("settings: %v", err)
	}
	return s, nil
}

func appendMarker(b, key []byte, m *Marker) []byte {
	from := len(b)
	text, err := json.Marshal(m)
	if err != nil {
		panic("sketch: marker cannot be encoded: " + err.Error()) // only numbers and strings
	}
	return seal(key, append(b, text...), from)
}

func decodeMarker(key, value []byte) (Marker, error) {
	var m Marker
	b, err := unseal(key, value)
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
