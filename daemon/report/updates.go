package report

import (
	"fmt"
	"strings"
)

// UpdateCount sums up the versions between refits, of which a daemon publishes one every few seconds: people read one
// line of many. The zero value is empty; it belongs to one goroutine at a time.
type UpdateCount struct {
	models []updatesOf // in the order of their first updates
}

// updatesOf are the updates of a model since the last line.
type updatesOf struct {
	model          string
	promoted, kept int64
	last           int64 // version that was promoted last
}

// Add counts a version that is an update, and reports whether it is one.
func (u *UpdateCount) Add(v *Version) bool {
	if v.Kind != "update" {
		return false
	}
	i := 0
	for i < len(u.models) && u.models[i].model != v.Model {
		i++
	}
	if i == len(u.models) {
		u.models = append(u.models, updatesOf{model: v.Model})
	}
	of := &u.models[i]
	if v.Decision == "promoted" {
		of.promoted++
		of.last = v.Version
	} else {
		of.kept++
	}
	return true
}

// Take returns what was counted since the last call, such as "12 updates of ratings promoted, the last is version 17";
// empty if there was no update.
func (u *UpdateCount) Take() string {
	var texts []string
	for _, of := range u.models {
		text := Count(of.promoted, "update") + " of " + of.model + " promoted"
		if of.promoted > 0 {
			text += fmt.Sprintf(", the last is version %d", of.last)
		}
		if of.kept > 0 {
			text += fmt.Sprintf(", %d kept back", of.kept)
		}
		texts = append(texts, text)
	}
	u.models = nil
	return strings.Join(texts, "; ")
}
