package margin

// Footprint returns the bytes that a fit of n rows of some entries each over d columns takes in addition to the
// problem and its model, basis vectors counted as columns: what it has of the rows with a bias, and by column or with
// their zeros, two sets of dual variables and three of weights.
func Footprint(n, entries, d, outputs int) int64 {
	perRow := int64(2*12*(entries+1) + 8 + 16*outputs + 4*8)
	return int64(n)*perRow + 4*8*int64(d+1)*int64(outputs)
}
