package rows

// MixHash returns a key of two hashes in their order and a number, never 0 (the finalizer of SplitMix64; Steele,
// Lea and Flood 2014).
func MixHash(a, b, n uint64) uint64 {
	h := a + 0x9e3779b97f4a7c15*(n+1)
	for _, v := range [2]uint64{0, b} {
		h ^= v * 0xd1342543de82ef95
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return max(h, 1)
}
