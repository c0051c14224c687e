package evaluate

// NameCounts counts the names of categorical and multi fields in events that were scored with the version that
// consumers have.
type NameCounts struct {
	Total  int64
	Unseen int64 // outside the version's vocabulary
}
