package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/refitd/refitd/sketch/internal/ledger"
)

// A Digest is the SHA-256 over the rows in the order of role and identity: a function of the set of rows.
type Digest struct {
	hash  hash.Hash
	size  [4]byte
	rows  [ledger.NumRoles]int
	bytes int64
}

// NewDigest returns the digest of no rows.
func NewDigest() *Digest { return &Digest{hash: sha256.New()} }

// Add adds a row, which has to be the next in their order.
func (d *Digest) Add(row *Scanned) {
	d.hash.Write(row.key)
	binary.BigEndian.PutUint32(d.size[:], uint32(len(row.value)))
	d.hash.Write(d.size[:])
	d.hash.Write(row.value)
	d.rows[row.Role]++
	d.bytes += int64(len(row.key) + len(row.value))
}

// Sum returns the digest of what was added.
func (d *Digest) Sum() (sum ledger.Digest) {
	d.hash.Sum(sum[:0])
	return sum
}
