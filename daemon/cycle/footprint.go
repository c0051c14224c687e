package cycle

import (
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/refit/choose"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/quality"
	"github.com/refitd/refitd/solver"
)

// Entries returns how many names rows can have that take maxBytes by RowBytes.
func Entries(maxBytes int64) int64 { return maxBytes / rows.NameEntryBytes }

// VocabularyFootprint returns the bytes of the vocabularies of d columns of names of at most maxName bytes, out of a
// sample of n rows that take maxBytes by RowBytes, and of the baseline that knows the names of one field.
func VocabularyFootprint(n, d, maxName int, maxBytes int64) int64 {
	names := min(
		int64(d)*int64(maxName),
		maxBytes/4,
	) // RowBytes counts each byte of a name three times, and more for each name
	return rows.Vocabularies*rows.VocabularyBytes*int64(d) + rows.NameCopies*names + 2*rows.MeanBytes*int64(n)
}

// OtherVocabularyFootprint returns the bytes of the vocabulary of d columns that each further variant of an update
// adds.
func OtherVocabularyFootprint(d int) int64 { return rows.VocabularyBytes * int64(d) }

// StackedFootprint returns the bytes that a blend takes while it is made, given those of a model: its parts, their sum,
// and that in fewer coordinates.
func StackedFootprint(m *config.Model, model int64) int64 {
	if !mixture.HasStackedUpdate(m) {
		return 0
	}
	parts := int64(len(mixture.BlendFoldIns))
	if !experts.HasGaussian(m) {
		parts--
	}
	return (2*parts + 1) * model
}

// DeltasFootprint returns the bytes of what deltas of updates take, given the bytes of a model of d columns. These are
// an update in each variant as readers have it, with the rows that deltas have changed in it; two whole versions made
// of one; the rows of deltas at hand; and the rows of deltas taken during a compaction.
func DeltasFootprint(m *config.Model, model int64, d int) int64 {
	variants := int64(NumVariants(m) + 1)
	const atHand = 4 // taken, queued, as a frame, and as what it was before it was sorted
	vocabularies := variants * OtherVocabularyFootprint(d)
	return (2*variants+2)*model + vocabularies + atHand*updates.DeltaRowBytes + updates.MaxSinceBytes
}

// LiveFootprint returns the bytes of names that are held between refits, apart from a posterior or gradient rows. These
// are the names of the fold-in, of the online baseline, and of events that wait for the refit under way.
func LiveFootprint(m *config.Model) int64 {
	maxRows, maxName := m.Train.FoldIn.MaxRows, int(m.Input.MaxIDBytes)
	const pools = 2 * maxPool // of names of relearned events
	popularity := int64(0)
	if m.ChosenField() >= 0 {
		popularity = rows.PopularityBytes*int64(maxRows) + fitted.CoChoiceBytes(maxRows, maxName) +
			updates.RankingsBytes
	}
	return popularity + int64(maxRows)*rows.VocabularyBytes + int64(maxRows+3*pools)*int64(maxName) +
		2*int64(rows.BacklogBytes(m)) + rows.MaxBacklog*rows.BacklogEntry
}

// AddExperts adds the bytes of the experts and of the mixture of a model to their parts of memory.parts. A model whose
// loss or classes validation refuses has none.
func AddExperts(parts map[string]int64, m *config.Model) {
	s, err := experts.SettingOf(m)
	if err != nil {
		return
	}
	s.AddFootprints(parts)
	parts["mixture"] += mixture.Footprint(len(s.Names()), baselineSetting(s), int(m.Input.MaxIDBytes)) +
		s.LinearFootprint() + pipelineFootprint(len(s.Names())+1, s.Target.Outputs())
}

// pipelineFootprint returns the bytes of so many lanes: for each event of a chunk the outputs, and what a panic was
// about.
func pipelineFootprint(lanes, outputs int) int64 {
	const fault = 16
	return pipelineMost * int64(lanes) * int64(8*outputs+fault)
}

// AllRowsFootprint returns the bytes of all n rows of a sample together, of some entries each, as the stage over them
// has them.
func AllRowsFootprint(n, entries, outputs int) int64 {
	return int64(n) * int64(2*12*entries+8*(outputs+2)) // entries are appended
}

// DualFootprint returns the bytes of the dual variables of n rows: those of the champion and of the challenger, those
// that a refit continues from with the table that finds them by row, and as they are stored next to the state.
func DualFootprint(n, outputs int) int64 {
	const (
		sets   = 5   // the last two of them kept, once as they are encoded and once as they are written
		lookup = 160 // of a row in the table
	)
	return int64(n) * int64(sets*(8*outputs+16)+lookup)
}

// Bytes of what EntityCap remembers: of an entity, and of an entry of its maps, which grow by doubling. Measured;
// tests compare them.
const (
	entityUseBytes = 16
	recentBytes    = 48
)

// CapFootprint returns the bytes of what bounds how much an entity counts, with names of at most maxName bytes, and of
// the identities and the contents that came last.
func CapFootprint(m *config.Model, maxName int) (bytes int64) {
	bytes = admission.CopiesFootprint(m)
	if m.Train.Cap.By != "" && m.Train.Cap.Share > 0 {
		bytes += int64(m.Train.FoldIn.MaxRows) * int64(rows.SlotBytes+maxName+2*entityUseBytes+2*2*recentBytes)
	}
	if m.Schema.Identity != "" {
		bytes += 2*admission.RememberedIdentities*recentBytes + int64(admission.LearnedBytes(m)) +
			2*int64(m.Train.FoldIn.MaxRows)*recentBytes
	}
	return bytes
}

// MapFootprint returns the bytes that a feature map of so many columns takes while a refit of n rows of p numbers fits
// weights on it: the numbers, what solver.DenseFit has of the rows for which there is room, the model tried, the best
// one and the champion's, and the map.
func MapFootprint(n, p, columns, outputs int) int64 {
	weights := int64(columns+1) * int64(outputs)
	const models = 8
	return 8*(int64(n)*int64(2*p)+models*weights+int64(columns)*int64(p+1)) + solver.DenseFootprint(
		min(n, choose.MapRows(columns)), columns, outputs)
}

// observedBytes is an event of the progressive window. Measured; tests compare it.
const observedBytes = 272

// ProgressiveFootprint returns the bytes of the progressive losses over a window of so many events: the window, and
// counts of scores and classes for each predictor, over all events and while a report is made.
func ProgressiveFootprint(window, outputs int, task event.Task) int64 {
	bytes := int64(window) * observedBytes
	if task == event.Binary || task == event.Multiclass {
		intervals := int64(
			evaluate.NumReported + 2*(evaluate.NumRoles+evaluate.NumReported*int(evaluate.NumSlices)),
		) // all, the report and the tail
		bytes += intervals * (quality.HistogramBytes + 3*8*int64(outputs))
	}
	return bytes
}
