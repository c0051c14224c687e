package outbox

import (
	"encoding/binary"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// MaxLetterBytes bounds what the outbox keeps of a rejected record's value.
const MaxLetterBytes = 1 << 10

// A Detail is what the dead letter of a rejected record says in addition to the reason.
type Detail struct {
	Field    string // of the schema; "" for none. A dead letter keeps at least its first 60 bytes
	Expected string
	Got      string
}

// A Letter is a rejected record that waits in the outbox to be sent on. It was written in the transaction that
// counted the record, so that neither is there without the other.
type Letter struct {
	Topic       string
	Partition   int32
	Incarnation uint32 // of the topic, from 0
	Offset      int64
	Reason      string
	Detail             // empty where the record had none, or was rejected by a build that kept none
	Time        int64  // time stamp of the record, milliseconds
	Size        int    // bytes of its value, -1 if it had none
	Payload     []byte // the first MaxDeadLetterBytes of the value
}

// A dead letter's key ends in partition u32 | incarnation u32 | offset u64, big-endian, after the topic and a zero
// byte.
const deadLetterTailBytes = 4 + 4 + 8

// Key is the key of the dead letter of a record.
func Key(topic string, partition int32, incarnation uint32, offset int64) []byte {
	b := append([]byte{codec.PrefixDeadLetter}, topic...)
	b = binary.BigEndian.AppendUint32(append(b, 0), uint32(partition))
	b = binary.BigEndian.AppendUint32(b, incarnation)
	return binary.BigEndian.AppendUint64(b, uint64(offset))
}

// Append appends the value of a dead letter whose detail is given separately, nil for none: time u64 | size of the
// value u32, all ones for none | reason length u8 | reason | payload | CRC u32, big-endian. With a detail, what was
// expected, what came and the field follow the reason, each after a zero byte.
func Append(b, key []byte, r *Letter, detail *Detail) []byte {
	from := len(b)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Time))
	b = binary.BigEndian.AppendUint32(b, uint32(int32(r.Size)))
	at := len(b)
	b = append(append(b, 0), r.Reason...)
	if d := detail; d != nil {
		b = append(append(append(b, 0), d.Expected...), 0)
		b = append(append(b, d.Got...), 0)
		b = append(b, cutText(d.Field, math.MaxUint8-(len(b)-at-1))...)
	}
	b[at] = byte(len(b) - at - 1)
	b = append(b, r.Payload...)
	return codec.Seal(key, b, from)
}

// cutText returns the beginning of a text that has at most limit bytes and no half of a character.
func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// decode returns a dead letter whose payload aliases value.
func decode(key, value []byte) (Letter, error) {
	b, err := codec.Unseal(key, value)
	if err != nil {
		return Letter{}, err
	}
	const header = 8 + 4 + 1
	tail := len(key) - deadLetterTailBytes
	if tail < 3 || key[0] != codec.PrefixDeadLetter || key[tail-1] != 0 || len(b) < header || len(b) < header+int(b[12]) ||
		len(b)-header-int(b[12]) > MaxLetterBytes {
		return Letter{}, fault.Corrupt("dead letter at key %q has %d bytes", key, len(b))
	}
	n := header + int(b[12])
	reason, detail := string(b[header:n]), Detail{}
	if parts := strings.SplitN(reason, "\x00", 4); len(parts) == 4 {
		reason, detail = parts[0], Detail{Expected: parts[1], Got: parts[2], Field: parts[3]}
	}
	return Letter{
		Topic: string(key[1 : tail-1]), Partition: int32(binary.BigEndian.Uint32(key[tail:])),
		Incarnation: binary.BigEndian.Uint32(key[tail+4:]), Offset: int64(binary.BigEndian.Uint64(key[tail+8:])),
		Time: int64(binary.BigEndian.Uint64(b)), Size: int(int32(binary.BigEndian.Uint32(b[8:]))),
		Reason: reason, Detail: detail, Payload: b[n:],
	}, nil
}

// At reads the dead letter at a key, whose payload is valid as long as the cut.
func At(c storage.Cut, key string) (Letter, error) {
	value, err := c.Get([]byte(key))
	if err != nil {
		return Letter{}, err
	}
	return decode([]byte(key), value)
}

// Scan reads the outbox of a cut and checks that each dead letter is of a record that the ledger counts.
func Scan(c storage.Cut, accounts []ledger.Account, visit func(key []byte)) error {
	rows := make(map[ledger.Partition]*ledger.Account, len(accounts))
	for i := range accounts {
		at := ledger.Partition{Topic: accounts[i].Topic, Number: accounts[i].Partition}
		if newer := rows[at]; newer == nil || newer.Incarnation < accounts[i].Incarnation {
			rows[at] = &accounts[i]
		}
	}
	return c.Each([]byte{codec.PrefixDeadLetter}, func(key, value []byte) error {
		letter, err := decode(key, value)
		if err != nil {
			return err
		}
		l := rows[ledger.Partition{Topic: letter.Topic, Number: letter.Partition}]
		if l == nil || letter.Incarnation > l.Incarnation ||
			letter.Incarnation == l.Incarnation && letter.Offset >= l.Next {
			return fault.Corrupt("the outbox has %s/%d offset %d, which the ledger has not", letter.Topic, letter.Partition,
				letter.Offset)
		}
		visit(key)
		return nil
	})
}
