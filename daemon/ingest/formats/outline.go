package formats

import (
	"context"
	"fmt"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/daemon/config"
)

// Outline returns the format of a value behind its frame, or of a key, and what its schema has: the schema of the
// registry, which is waited for, or without a registry that of input.schema_file.
func (s *Schemas) Outline(ctx context.Context, m *config.Model, f *framing.Frame) (format string, leaves []event.Leaf,
	err error) {
	w := m.Input.Writer()
	if m.Input.FromRegistry {
		if err := s.Fetch(ctx, f.ID); err != nil {
			return "", nil, err
		}
		w = s.Writer(f.ID)
	}
	outline := outliners[w.Format]
	if outline == nil {
		return "", nil, fmt.Errorf("%s: no decoder of the format %s", f.ID, w.Format)
	}
	leaves, err = outline(w, f, limitsOf(m).MaxDepth)
	if err != nil {
		return "", nil, fmt.Errorf("%s cannot be used: %w", f.ID, err)
	}
	return w.Format, leaves, nil
}
