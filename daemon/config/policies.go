package config

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/refitd/refitd/consumer/event"
)

// What is kept must be a function of the set of events that fits the memory. Under a quota or a cap a newer event of an
// identity could move its row to another class or entity, whose other rows were given up long before: those keys are
// not combined.

// refuse reports what no other value of the key makes right.
func (v *validator) refuse(path, message string) { v.Add(v.Locate(path), path, message, "") }

func (v *validator) quotas(m *Model, path string) {
	if len(m.Sample.Quotas) == 0 {
		return
	}
	classes, ok := m.Schema.QuotaClasses()
	switch {
	case !ok:
		v.refuse(path, "needs task: ordinal, binary or multiclass; this is task: "+m.Schema.Task)
	case m.Schema.Identity != "":
		v.refuse(path, "cannot be combined with schema.identity: a newer event of an identity could move its row to "+
			"another class, whose other rows are not known any more")
	case m.Sample.Cap.By != "":
		v.refuse(path, "cannot be combined with sample.cap: write quotas for rare classes, or a cap against floods")
	}
	var sum float64
	seen := make(map[ClassName]bool)
	for i, q := range m.Sample.Quotas {
		at := fmt.Sprintf("%s[%d]", path, i)
		if len(classes) > 0 {
			v.oneOf(at+".class", string(q.Class), classes...)
		} else if q.Class == "" {
			v.bad(at+".class", "", "a class of the label")
		}
		if seen[q.Class] {
			v.bad(at+".class", string(q.Class), "each class once")
		}
		seen[q.Class] = true
		if !(q.Share > 0 && q.Share <= 1) {
			v.bad(at+".share", q.Share, "a number above 0 and at most 1")
		}
		sum += q.Share
	}
	if sum > 1+1e-9 { // thirds add up to a little more than 1
		v.refuse(path, fmt.Sprintf("shares add up to %g: they must to at most 1", sum))
	}
}

func (v *validator) cap(m *Model, path string) {
	c := &m.Sample.Cap
	v.field(path+".by", c.By, m.Schema.Categorical)
	switch {
	case c.By == "" && c.Share != 0:
		v.bad(path+".by", "", fmt.Sprintf("one of the categorical fields %q", m.Schema.Categorical))
	case c.By != "" && !(c.Share > 0 && c.Share < 1):
		v.bad(path+".share", c.Share, "a number between 0 and 1, such as 0.01")
	case c.By != "" && m.Schema.Identity != "":
		v.refuse(
			path+".by",
			"cannot be combined with schema.identity: a newer event of an identity could move its row to "+
				"another entity, whose other rows are not known any more",
		)
	}
}

// trainCap checks what an entity counts in what is learned from event to event.
func (v *validator) trainCap(m *Model, path string) {
	c := &m.Train.Cap
	v.field(path+".by", c.By, m.Schema.Categorical)
	if !(c.Share >= 0 && c.Share < 1) {
		v.bad(path+".share", c.Share, "a number between 0 and 1, such as 0.01, or 0 for no cap")
	}
}

// QuotaClasses returns the names of the classes that quotas may name, none if any will do. ok is false for tasks whose
// labels are no classes, or several at once.
func (s *Schema) QuotaClasses() (names []string, ok bool) {
	switch event.Task(s.Task) {
	case event.Binary:
		return []string{"0", "1"}, true
	case event.Ordinal:
		for level := range max(0, s.Levels) {
			names = append(names, strconv.Itoa(level+1))
		}
		return names, true
	case event.Multiclass:
		return slices.Clone(s.Classes), true
	}
	return nil, false
}
