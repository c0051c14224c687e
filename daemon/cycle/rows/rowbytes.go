package rows

// Bytes, measured or counted from the types; tests compare them.
const (
	// of a row in addition to its content: its copy's header, the decoded event twice while it is encoded, weights,
	// headers of lists
	rowBytes = 560
	// of a name in a row: header, matrix entry, and an entry of a table, a count and a place in the order of names
	NameEntryBytes  = 220
	VocabularyBytes = 72 // of a column: map entry and string header
	Vocabularies    = 3  // the champion's, that of the last update, and the one that is served
	NameCopies      = 2  // of their names: the champion's and those that are served; a refit's are in RowBytes
	// of a name in the baseline of means, which two champions have; the name itself is of a vocabulary or of a row
	MeanBytes = 72
	BiasBytes = 136 // of a name in the online baseline
	// of a name whose choices are counted: its counts, its weights in the champion and in two updates, and their map
	// entries
	PopularityBytes = 384
	BacklogEntry    = 72 // of a payload that was learned since the last cut: its place and header
)
