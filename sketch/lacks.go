package sketch

import "github.com/refitd/refitd/sketch/internal/share"

// Lacks returns how many of the rows that a shard has, as the head of a share says, are neither here nor among its
// pairs: something of it was lost, or is below thresholds that the shard does not know yet. A share that cannot be
// read is an error of Merge. O(rows of the store and of the share), in a map.
func (s *Store) Lacks(m *Share) (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := share.Read(m, &s.settings, &s.ledger)
	if err != nil {
		return 0
	}
	return share.Lacks(m, h, &s.samples, &s.ledger)
}
