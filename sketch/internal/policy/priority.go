package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"time"

	"github.com/refitd/refitd/sketch/internal/ledger"
)

// Identity is the 128-bit keyed hash of an event's identity: the key of its row, and the order of events of equal rank.
// Its first 64 bits are the h of the priority.
type Identity [16]byte

// H returns the h of the priority.
func (id Identity) H() uint64 { return binary.BigEndian.Uint64(id[:8]) }

// Domains keep the kinds of hashed bytes apart.
const (
	domainOffset = iota
	DomainIdentity
	DomainEntity
	DomainGroup
)

// A Drawer turns identities into keyed hashes. One SHA-256 of (seed, domain, identity) gives all the bits an event
// needs: 128 of identity, 64 that choose its role. The identity by offset of a topic name up to 30 bytes takes one
// block. It is not safe for concurrent use.
type Drawer struct {
	seed uint64
	held uint64 // an event is held out when its 63 role bits are below this
	buf  []byte
}

// NewDrawer returns the hashes of a seed, under which that share of the events is held out.
func NewDrawer(seed uint64, heldFraction float64) *Drawer {
	return &Drawer{seed: seed, held: uint64(heldFraction * (1 << 63)), buf: make([]byte, 0, 128)}
}

// ByOffset is the hash of an event without an identity: that of its place in the log.
func (d *Drawer) ByOffset(topic string, incarnation uint32, partition int32, offset int64) [32]byte {
	b := binary.BigEndian.AppendUint64(d.buf[:0], d.seed)
	b = append(b, domainOffset)
	b = binary.BigEndian.AppendUint32(b, incarnation)
	b = binary.BigEndian.AppendUint32(b, uint32(partition))
	b = binary.BigEndian.AppendUint64(b, uint64(offset))
	d.buf = append(b, topic...)
	return sha256.Sum256(d.buf)
}

// ByBytes hashes an identity or an entity.
func (d *Drawer) ByBytes(domain byte, value []byte) [32]byte {
	b := binary.BigEndian.AppendUint64(d.buf[:0], d.seed)
	b = append(b, domain)
	d.buf = append(b, value...)
	return sha256.Sum256(d.buf)
}

// Role reads the role bits of a hash: 63 decide whether the event is held out, one for what.
func (d *Drawer) Role(sum *[32]byte) ledger.Role {
	bits := binary.BigEndian.Uint64(sum[16:24])
	switch {
	case bits>>1 >= d.held:
		return ledger.Train
	case bits&1 == 0:
		return ledger.Select
	default:
		return ledger.Gate
	}
}

// A Rule orders the events of one sample by rank; the largest ranks are kept.
type Rule struct {
	Keyed    bool    // ranks are exponential keys; else the order is that of h alone
	HalfLife float64 // milliseconds, 0 = no forgetting
}

// NewRule returns the rule of a sample whose events halve their chance in halfLife, 0 = never.
func NewRule(s *Settings, halfLife time.Duration) Rule {
	return Rule{
		// The newest of several events of one identity must not move the priority, or what was refused could return.
		Keyed:    s.Identity == "" && (s.Weighted || halfLife > 0),
		HalfLife: float64(halfLife) / float64(time.Millisecond),
	}
}

// Rank maps the priority of an event to an integer of the same order. Uniform samples compare h alone, exactly: a small
// h is a small E and so a large key.
func (r Rule) Rank(h uint64, weight float64, time int64) uint64 {
	if !r.Keyed {
		return ^h
	}
	return ordered(r.base(weight, time) - ln(exponential(h)))
}

// base is ln w + t/τ, with τ = halfLife / ln 2: the part of a key that is not chance.
func (r Rule) base(weight float64, time int64) float64 {
	b := ln(weight)
	if r.HalfLife > 0 {
		b += float64(float64(time)*math.Ln2) / r.HalfLife
	}
	return b
}

// exponential turns 64 uniform bits into E = -log1p(-(h+½)·2⁻⁶⁴), which is Exp(1). It is positive and finite, and
// relatively precise near 0, where the kept events are: log1p(x) = ln(y)·x/(y-1) with y = 1+x (Goldberg 1991, theorem
// 4).
func exponential(h uint64) float64 {
	u := float64((float64(h) + 0.5) * (1.0 / (1 << 64)))
	u = min(u, 1-0x1p-53) // the 2¹⁰ largest h would round to 1
	y := 1 - u
	if y == 1 {
		return u
	}
	return float64(ln(y)*u) / (y - 1)
}

// ln is the natural logarithm of a positive finite x, by 2·atanh((m-1)/(m+1)) on [√½, √2). Unlike math.Log, which
// has assembly on some architectures and fused operations on others, it gives the same bits on every machine: each
// product is rounded by its conversion.
func ln(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	s := (m - 1) / (m + 1)
	z := float64(s * s)
	p := 0.0
	for n := 23; n >= 3; n -= 2 { // s² <= 0.0295: the first term left out is below 2⁻⁶²
		p = float64(z * (p + lnTerm[n]))
	}
	// ln 2 in two parts; the first has 21 trailing zero bits, so its multiples are exact.
	const high, low = 6.93147180369123816490e-01, 1.90821492927058770002e-10
	k := float64(e)
	return float64(k*high) + (2*s + (float64(2*s*p) + float64(k*low)))
}

// lnTerm holds 1/n for the odd n of the series of atanh.
var lnTerm = [24]float64{
	3:  1. / 3,
	5:  1. / 5,
	7:  1. / 7,
	9:  1. / 9,
	11: 1. / 11,
	13: 1. / 13,
	15: 1. / 15,
	17: 1. / 17,
	19: 1. / 19,
	21: 1. / 21,
	23: 1. / 23,
}

// ordered maps a number to an integer so that a < b exactly when ordered(a) < ordered(b). NaN is not allowed.
func ordered(x float64) uint64 {
	b := math.Float64bits(x)
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

// unordered is the inverse of ordered.
func unordered(b uint64) float64 {
	if b>>63 != 0 {
		return math.Float64frombits(b &^ (1 << 63))
	}
	return math.Float64frombits(^b)
}

// LnInclusion is ln π, with π the probability that the event's rank exceeds the threshold κ: of uniform samples the
// share of h below that of κ, of exponential keys 1 - exp(-exp(ln w + t/τ - κ)).
func (r Rule) LnInclusion(weight float64, time int64, threshold uint64) float64 {
	if !r.Keyed {
		return math.Log((float64(^threshold) + 0.5) * (1.0 / (1 << 64)))
	}
	y := r.base(weight, time) - unordered(threshold)
	if y < -40 { // 1 - exp(-x) = x to the last bit
		return y
	}
	return math.Log(-math.Expm1(-math.Exp(y)))
}
