package cycle

// Bytes, measured or counted from the types; a test compares them. Names are of 16 bytes in rows and of 24 in a vocabulary, which has the rare ones.
const (
	eventBytes      = 250 // of a decoded row while a refit encodes it: label, weight, time, slice headers, and its stored bytes
	nameBytes       = 32  // string header and name
	vocabularyBytes = 96  // map entry, string header and name
)

// RowsFootprint returns the bytes of n rows that are decoded for a refit.
func RowsFootprint(n, names, numbers int) int64 {
	return int64(n) * int64(eventBytes+PayloadFootprint(names, numbers))
}

// PayloadFootprint returns the bytes of a row's names and numbers.
func PayloadFootprint(names, numbers int) int { return names*nameBytes + numbers*8 }

// VocabularyFootprint returns the bytes of a vocabulary of d columns.
func VocabularyFootprint(d int) int64 { return vocabularyBytes * int64(d) }
