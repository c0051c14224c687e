package fitted

// HoldoutSet is a stratified sample of rows: a reservoir for either binary label, one for all rows of other labels.
type HoldoutSet [2]Reservoir

// Reservoir keeps rows of at most guardOfEntity for each entity. The zero value is empty.
type Reservoir struct {
	Rows   []GuardRow
	Places []int          // of rows, among all that were added
	Added  int            // rows so far
	Count  map[string]int // rows by entity
	Seen   float64        // rows that were offered, which weigh the strata; halved with the window
	Skip   int            // rows that pass until the next one is kept
}

// GuardRow is a row with its losses under what updates are compared with.
type GuardRow struct {
	Entity  string
	Payload []byte
	Label   float64
	// before anything had learned the row: of the refit for held-out rows, of the version that consumers had for others
	Unseen  RowLoss
	Current RowLoss    // of what consumers have
	Of      FixedModel // that current is of
	Refit   RowLoss    // of the last refit, of the latest events
	OfRefit FixedModel // that refit is of
}

// RowLoss is a loss and a squared error, as outcome has them.
type RowLoss struct{ Loss, Square float64 }
