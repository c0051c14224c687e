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

// MaxLetterBytes bounds what the outbox keeps of a rejected record's key, headers and value together. Chosen by hand:
// 10,000 of them, the default of input.dead_letter.max_rows, take 20 MiB.
const MaxLetterBytes = 2 << 10

// A Detail is what the dead letter of a rejected record says in addition to the reason.
type Detail struct {
	Field    string // of the schema; "" for none. A dead letter keeps at least its first 60 bytes
	Expected string
	Got      string
	KeySize  int    // bytes of the record's key, -1 if it had none
	Key      []byte // the beginning of the key
	Headers  []byte // the first headers, as records in Kafka have them; nil for none. Their number is that of all
}

// A Letter is a rejected record that waits in the outbox to be sent on. It was written in the transaction that
// counted the record, so that neither is there without the other.
type Letter struct {
	Topic       string
	Partition   int32
	Incarnation uint32 // of the topic, from 0
	Offset      int64
	Reason      string
	Detail             // empty where the record had none; KeySize is -1 then, too
	Time        int64  // time stamp of the record, milliseconds
	Size        int    // bytes of its value, -1 if it had none
	Payload     []byte // the beginning of the value
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

// withKey is the number of the format of dead letters that keep the record's key and headers. The first format has no
// number: where later ones have a zero byte it has the length of a reason, which is not empty.
const withKey = 2

// Append appends the value of a dead letter whose detail is given separately, nil for none, big-endian:
//
//	time u64 | size of the value u32 | 0 u8 | withKey u8 | size of the key u32 | bytes kept of the key u16
//	| bytes kept of the headers u16 | reason length u8 | reason | key | headers | payload | CRC u32
//
// Sizes are all ones for none. With a detail, what was expected, what came and the field follow the reason, each after
// a zero byte. The first format is time | size of the value | reason length | reason | payload | CRC.
func Append(b, key []byte, r *Letter, detail *Detail) []byte {
	from := len(b)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Time))
	b = binary.BigEndian.AppendUint32(b, uint32(int32(r.Size)))
	d := detail
	if d == nil {
		d = &Detail{KeySize: -1}
	}
	b = binary.BigEndian.AppendUint32(append(b, 0, withKey), uint32(int32(d.KeySize)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(d.Key)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(d.Headers)))
	at := len(b)
	b = append(append(b, 0), r.Reason...)
	if detail != nil {
		b = append(append(append(b, 0), d.Expected...), 0)
		b = append(append(b, d.Got...), 0)
		b = append(b, cutText(d.Field, math.MaxUint8-(len(b)-at-1))...)
	}
	b[at] = byte(len(b) - at - 1)
	b = append(append(append(b, d.Key...), d.Headers...), r.Payload...)
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

// decode returns a dead letter whose key, headers and payload alias value.
func decode(key, value []byte) (Letter, error) {
	b, err := codec.Unseal(key, value)
	if err != nil {
		return Letter{}, err
	}
	bad := fault.Corrupt("dead letter at key %q has %d bytes", key, len(b))
	const fixed, about = 8 + 4, 1 + 1 + 4 + 2 + 2
	tail := len(key) - deadLetterTailBytes
	if tail < 3 || key[0] != codec.PrefixDeadLetter || key[tail-1] != 0 || len(b) <= fixed {
		return Letter{}, bad
	}
	l := Letter{
		Topic: string(key[1 : tail-1]), Partition: int32(binary.BigEndian.Uint32(key[tail:])),
		Incarnation: binary.BigEndian.Uint32(key[tail+4:]), Offset: int64(binary.BigEndian.Uint64(key[tail+8:])),
		Time: int64(binary.BigEndian.Uint64(b)), Size: int(int32(binary.BigEndian.Uint32(b[8:]))),
		Detail: Detail{KeySize: -1},
	}
	keyBytes, headerBytes := 0, 0
	if rest := b[fixed:]; rest[0] != 0 {
		b = rest
	} else if len(rest) <= about || rest[1] != withKey {
		return Letter{}, bad
	} else {
		l.KeySize = int(int32(binary.BigEndian.Uint32(rest[2:])))
		keyBytes, headerBytes = int(binary.BigEndian.Uint16(rest[6:])), int(binary.BigEndian.Uint16(rest[8:]))
		if b = rest[about:]; keyBytes > max(0, l.KeySize) {
			return Letter{}, bad
		}
	}
	reason := int(b[0])
	if b = b[1:]; len(b) < reason+keyBytes+headerBytes || len(b)-reason > MaxLetterBytes {
		return Letter{}, bad
	}
	l.Reason, b = string(b[:reason]), b[reason:]
	if parts := strings.SplitN(l.Reason, "\x00", 4); len(parts) == 4 {
		l.Reason, l.Expected, l.Got, l.Field = parts[0], parts[1], parts[2], parts[3]
	}
	if l.KeySize >= 0 {
		l.Key = b[:keyBytes]
	}
	if b = b[keyBytes:]; headerBytes > 0 {
		l.Headers = b[:headerBytes]
	}
	l.Payload = b[headerBytes:]
	return l, nil
}

// At reads the dead letter at a key, whose bytes are valid as long as the cut.
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
