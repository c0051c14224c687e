package snapshot

import "fmt"

// Numbers are the number of a version and that of a move of aliases; 0 is none.
type Numbers struct {
	Version  int64 `json:"version"`
	Sequence int64 `json:"sequence"`
}

// reserve asks Reserve, where there is one, for the numbers to take in place of those that the store would take by itself.
func (s *Store) reserve(model string, next Numbers) (Numbers, error) {
	if s.Reserve == nil {
		return next, nil
	}
	taken, err := s.Reserve(model, next)
	if err != nil {
		return Numbers{}, fmt.Errorf("reserve numbers: %w", err)
	}
	return taken, nil
}
