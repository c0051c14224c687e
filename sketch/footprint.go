package sketch

// Bytes, measured or counted from the types; a test compares them.
const (
	indexBytes   = 88       // of a row: its entry, and its place in the map of identities
	cappedBytes  = 160      // two more map entries and the rank among the rows of the group, which may be one of many
	storedBytes  = 96       // key, ledger position and check sum of a stored row
	badgerBytes  = 96 << 20 // three 16 MiB memtables, block and index caches of 16 MiB each, a table being built
	letterHeader = 512      // of a rejected record without what is kept of its value
	stubBytes    = 160      // of a key with outcomes, where a sample is read: its entry in the map of lists
	outcomeBytes = 72       // of an outcome in such a list
	meanOutcomes = 4        // of a key, at most in the mean; one key may have MaxOutcomes of a partition
)

// IndexFootprint returns the bytes that a sample of n rows takes in memory.
func IndexFootprint(n int, capped bool) int64 {
	if capped {
		return int64(n) * (indexBytes + cappedBytes)
	}
	return int64(n) * indexBytes
}

// StubsFootprint returns the bytes that the outcomes of n keys take in memory: their index, and the lists of a sample
// that is read.
func StubsFootprint(n int) int64 {
	return int64(n) * (indexBytes + stubBytes + meanOutcomes*outcomeBytes)
}

// StoredFootprint returns the bytes on disk of n rows with payloads of some bytes each.
func StoredFootprint(n, payload int) int64 { return int64(n) * int64(storedBytes+payload) }

// DiskFootprint returns the bytes that Badger takes with n rows of some bytes each: its tables are mapped, and a
// compaction holds old and new ones.
func DiskFootprint(n, payload int) int64 { return badgerBytes + 2*StoredFootprint(n, payload) }

// OutboxFootprint returns the bytes of rejected records that wait to be sent.
func OutboxFootprint(n int) int64 { return int64(n) * (letterHeader + MaxDeadLetterBytes) }
