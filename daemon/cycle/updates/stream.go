package updates

import (
	"slices"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// DeltaStream is what follows the newest update, in each form that it could have had: publish.deltas asks for it. It
// belongs to the goroutine that updates, but for what c.mu guards: the learners, published, installed and queue.
type DeltaStream struct {
	Of      *fitted.Fitted // the update
	Form    mixture.Variant
	Forms   [mixture.NumForms]*DeltaEncoder // nil where there is no such form, or none that deltas can follow
	sources []*Source

	Published bool                   // consumers have the update: deltas go out to them
	Installed Installed              // what consumers have, or would have
	Popular   *fitted.PopularWeights // of the update with the deltas that were taken; nil for none
	Added     *fitted.PopularWeights // of what is installed
	Queue     []TakenDelta           // not published yet, oldest first

	Tables  *tables.Set // what is known of entities; nil without tables
	changed *tables.Touched

	Widened    string      // field whose rows have all changed since, by an alarm; empty for none
	Compaction *Compaction // of the update, under way; nil without. It belongs to the goroutine that updates
}

// Installed is the newest update in each form, after the deltas that consumers have; nil for a form without a model.
type Installed [mixture.NumForms]*snapshot.Model

// TakenDelta is a delta with the models after it.
type TakenDelta struct {
	Delta *format.Delta
	After Installed
	Added *fitted.PopularWeights // of these
}

// Source is what lists the names that were touched, for all forms that share it.
type Source struct {
	Slots   *rows.Slots
	touched *rows.Touched
	Taken   []int32 // the slots that the delta at hand is of
}

// MaxQueued bounds the deltas that wait to be published, and DeltaRowBytes what they take; with more a whole version
// has to come first. Chosen by hand.
const MaxQueued = 100

// bytesOf returns how many bytes the rows and trees of a delta take.
func bytesOf(d *format.Delta) int {
	n := len(d.Linear) + len(d.Basis)
	if d.Trees != nil {
		for i := range d.Trees.List {
			t := &d.Trees.List[i]
			n += len(t.Leaves) + splitNumbers*len(t.Splits)
		}
	}
	return 8 * n
}

// splitNumbers is how many numbers take as much memory as a split of a tree. Derived from its type.
const splitNumbers = 4

// Queued returns how many bytes the rows and trees of the deltas take that wait.
func (f *DeltaStream) Queued() (bytes int) {
	for i := range f.Queue {
		bytes += bytesOf(f.Queue[i].Delta)
	}
	return bytes
}

// FollowTables lists from now on whose rows change in the tables, and returns these as they are. A nil set has none.
func (f *DeltaStream) FollowTables(s *tables.Set) *tables.Set {
	f.Tables, f.changed = s, s.Follow()
	return s.Snapshot()
}

// mostTableRows is how many rows of tables a delta has. Chosen by hand: a MiB or two.
const mostTableRows = 10_000

// TakeTables returns the rows of the tables that have changed since it was asked last, as many as a delta may have.
func (f *DeltaStream) TakeTables() []*format.TableRow {
	return fitted.TableRows(f.Tables, f.Tables.Take(f.changed, mostTableRows))
}

// SourceOf returns what lists the names that a learner touches.
func (f *DeltaStream) SourceOf(s *rows.Slots) *Source {
	for _, of := range f.sources {
		if of.Slots == s {
			return of
		}
	}
	list := new(rows.Touched)
	s.Touched = append(s.Touched, list)
	f.sources = append(f.sources, &Source{Slots: s, touched: list})
	return f.sources[len(f.sources)-1]
}

// End ends the lists of what is touched. c.mu is held.
func (f *DeltaStream) End() {
	f.Unlist()
	for _, own := range f.Forms {
		if own == nil {
			continue
		}
		if r, ok := own.Rows.(*namesRows); ok {
			r.learner.Touched = slices.DeleteFunc(r.learner.Touched,
				func(t *experts.TouchedPairs) bool { return t == r.touched })
		}
	}
}

// start builds the models that the forms begin with.
func (f *DeltaStream) start(settings *config.Model, forms *[mixture.NumForms]Candidate) error {
	for form, follower := range f.Forms {
		if follower == nil {
			continue
		}
		if err := follower.start(forms[form].Of(f.Of), settings); err != nil {
			if mixture.Variant(form) == f.Form {
				return err
			}
			f.Forms[form] = nil
			continue
		}
		f.Installed[form] = follower.Model
	}
	return nil
}

// InstallTo lets what consumers have, or could have, be scored with the deltas.
func (f *DeltaStream) InstallTo(v *Served) {
	installed := f.Installed
	if f.Of.PopularOnly { // what was learned is scored as it was
		installed = [mixture.NumForms]*snapshot.Model{}
	}
	for form, after := range installed {
		if v.Forms[form].Model != nil {
			v.Forms[form].After, v.Forms[form].Popular = after, f.Added
		}
	}
	v.Update.After, v.Update.Popular = installed[f.Form], f.Added
	if f.Published {
		v.After, v.Popular = v.Update.After, v.Update.Popular
	}
}

// Advance applies what was taken.
func (f *DeltaStream) Advance(deltas *[mixture.NumForms]*format.Delta) (whole string) {
	for form, d := range deltas {
		if d == nil {
			continue
		}
		next, err := f.Forms[form].Model.Apply(d)
		switch {
		case err == nil:
			f.Forms[form].Model = next
		case mixture.Variant(form) == f.Form:
			return err.Error()
		default:
			f.Forms[form] = nil
		}
	}
	return ""
}
