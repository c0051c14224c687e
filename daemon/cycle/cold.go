package cycle

import (
	"fmt"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/solver"
)

// A coldStart is a refit that starts from nothing although there is a champion. The zero value is a refit that
// continues from the champion.
type coldStart struct {
	begins bool
	why    string // "" where it was asked for
}

// coldStart returns whether the next refit starts from nothing. c.mu is held.
func (c *Cycle) coldStart() coldStart {
	switch {
	case c.Cold:
		return coldStart{begins: true}
	case c.rejections == coldAfter:
		return coldStart{true, fmt.Sprintf("after %d rejections in a row", coldAfter)}
	case c.champion == nil:
		return coldStart{}
	case c.failedFrom == c.champion.Model:
		return coldStart{true, fmt.Sprintf("because a refit that continued from version %d failed", c.champion.Version.Version)}
	}
	why := c.champion.unfit(c.config)
	return coldStart{why != "", why}
}

// unfit returns why a refit with such settings cannot continue from the champion, "" if it can. A version that
// somebody else made champion comes without the convex stage's model. The published one is of another kernel where
// fields have groups, or where the settings were others.
func (ch *Champion) unfit(m *config.Model) string {
	kernel, err := solver.KernelOf(m.Train.Kernel, m.Train.KernelDegree())
	if err != nil {
		return "" // the settings are at fault, and the refit says so
	}
	if augment := m.Train.Augment == "true"; ch.Vocabulary.Augment != augment {
		return fmt.Sprintf("because version %d was trained with train.augment: %t", ch.Version.Version, ch.Vocabulary.Augment)
	}
	if m.Train.ConvexAlone() {
		return "" // fittedOn leaves the basis of another kernel
	}
	goesOn := ch.Model
	if from := ch.cleanState().posterior; from != nil {
		if from.Group == nil {
			return ""
		}
		goesOn = ch.convex
	}
	switch {
	case goesOn == nil:
		return fmt.Sprintf("because version %d was kept without the model of its convex stage", ch.Version.Version)
	case goesOn.Kernel != kernel:
		return fmt.Sprintf("because version %d has the kernel %v of degree %d, and refits look for basis vectors of %v of degree %d", ch.Version.Version,
			goesOn.Kernel, goesOn.Kernel.Degree(), kernel, kernel.Degree())
	}
	return ""
}

// failed notes that a refit that continued from a champion failed: the next one from that champion starts from nothing.
func (c *Cycle) failed(from *Champion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failedFrom = from.Model
}

// StartsCold reports whether the next refit starts from nothing because one that continued from the champion failed.
func (c *Cycle) StartsCold() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.champion != nil && c.failedFrom == c.champion.Model
}
