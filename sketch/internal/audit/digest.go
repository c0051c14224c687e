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

func NewDigest() *Digest { return &Digest{hash: sha256.New()} }

func (d *Digest) Add(row *Scanned) {
	d.hash.Write(row.key)
	binary.BigEndian.PutUint32(d.size[:], uint32(len(row.value)))
	d.hash.Write(d.size[:])
	d.hash.Write(row.value)
	d.rows[row.Role]++
	d.bytes += int64(len(row.key) + len(row.value))
}

func (d *Digest) Sum() (sum ledger.Digest) {
	d.hash.Sum(sum[:0])
	return sum
}
