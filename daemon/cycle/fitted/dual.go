package fitted

// RowID is the digest of a row: what it is known by from refit to refit.
type RowID [16]byte

// RowDual are dual variables by row, from which the next refit starts.
type RowDual struct {
	IDs     []RowID
	Outputs int
	Values  []float64 // of each row in turn, Outputs numbers
}
