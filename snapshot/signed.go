package snapshot

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// A version number or the number of a move that is larger than counting can have made it is somebody's invention.
// maxPlausible bounds the first: a version every millisecond comes to it in 35 years. A version is published by one
// move; prunes, moves by operators, and newer versions than the one that an alias was rolled back to are what else
// there is: movesPerVersion and movesExtra are far above that, a move by an operator every minute for 32 years.
const (
	maxPlausible    = 1 << 40
	movesPerVersion = 16
	movesExtra      = 1 << 24
)

// plausible returns ErrFormat if the number of the move is larger than the version that p names allows.
func (p *Pointer) plausible() error {
	if p.Version > maxPlausible || p.Sequence > movesPerVersion*p.Version+movesExtra {
		return fmt.Errorf(
			"%w: move %d of an alias that names version %d: more than %d moves a version and %d cannot be",
			ErrFormat,
			p.Sequence,
			p.Version,
			movesPerVersion,
			movesExtra,
		)
	}
	return nil
}

// mostMoves is the largest number of a move in the log that a writer continues from, given the newest version. It is
// half of what readers without keys accept. For version numbers, too, a writer accepts half of what readers do. So an
// invented number in a log, an alias or the name of a directory cannot make a writer count to where readers stop.
func mostMoves(newest int64) int64 { return (movesPerVersion*newest + movesExtra) / 2 }

// forged returns an error if the store has keys and none of them signed an alias as it is, or if nobody can have
// counted to its number.
func (s *Store) forged(model, alias string, p *Pointer) error { return p.Verify(model, alias, s.Keys) }

// forgedVersion reports whether the store has keys and none of them signed a version.
func (s *Store) forgedVersion(root *os.Root, model string, version int64) bool {
	dir, _, err := openVersion(root, model, version, s.Keys)
	if err == nil {
		err = dir.Close()
	}
	return errors.Is(err, ErrSignature)
}

// Newest returns the manifest of the newest version that the store's keys signed, and that accept, if not nil, takes.
// It returns ErrNotFound if no version is.
func (s *Store) Newest(model string, accept func(*Manifest) bool) (Manifest, error) {
	m, err := inModel(s.dir, model, func(root *os.Root) (Manifest, error) {
		versions, err := numbersIn(root)
		if err != nil {
			return Manifest{}, err
		}
		for _, v := range slices.Backward(versions) {
			dir, m, err := openVersion(root, model, v, s.Keys)
			if err != nil {
				continue
			}
			if err := dir.Close(); err != nil {
				return Manifest{}, err
			}
			if accept == nil || accept(&m) {
				return m, nil
			}
		}
		return Manifest{}, fmt.Errorf("%w: no such version", ErrNotFound)
	})
	if err != nil {
		return Manifest{}, fmt.Errorf("snapshot: newest version of %s: %w", model, err)
	}
	return m, nil
}
