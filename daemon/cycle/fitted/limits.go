package fitted

// RowsPerLambda is the amount of row weight that a configured λ is stated for. It defines the unit of train.lambda.
const RowsPerLambda = 10_000

// OutputLimit returns the limit of the outputs of versions on the champion, 0 for none.
func (ch *Fitted) OutputLimit() float64 {
	if limit := ch.Version.OutputLimit; limit != nil {
		return float64(*limit)
	}
	return 0
}

// MaxRecordBytes bounds what a record may take once it is decompressed. Chosen by hand.
const MaxRecordBytes = 8 << 30
