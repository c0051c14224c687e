package publish

import "fmt"

// Numbers are the number of a version and that of a move of aliases; 0 is none.
type Numbers struct {
	Version  int64 `json:"version"`
	Sequence int64 `json:"sequence"`
}

// reserve asks Reserve, if set, for the numbers to take. Without it the store takes the next ones.
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
