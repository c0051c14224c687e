package fitted

// HoldoutSet is a stratified sample of rows: a reservoir for either binary label, one for all rows of other labels.
type HoldoutSet [2]Reservoir

// Reservoir keeps rows of at most guardOfEntity for each entity. The zero value is empty.
type Reservoir struct {
	Rows  []GuardRow
	order []neighbours   // of rows: a ring from the oldest to the newest
	first int32          // row: the oldest
	Count map[string]int // rows by entity
	Seen  float64        // rows that were offered, which weigh the strata; halved with the window
	Skip  int            // rows that pass until the next one is kept
}

// neighbours are the rows that were added before and after one; before the oldest comes the newest.
type neighbours struct{ before, after int32 }

// Append keeps a row as the newest.
func (r *Reservoir) Append(row GuardRow) {
	at := int32(len(r.Rows))
	r.Rows, r.order = append(r.Rows, row), append(r.order, neighbours{at, at})
	r.link(at)
}

// Oldest returns the oldest row, or the oldest of an entity that has some. There are rows.
func (r *Reservoir) Oldest(entity string, own bool) int {
	at := r.first
	for own && r.Rows[at].Entity != entity {
		at = r.order[at].after
	}
	return int(at)
}

// Replace puts a row, as the newest, in the place of another one.
func (r *Reservoir) Replace(i int, row GuardRow) {
	at := int32(i)
	of := r.order[at]
	r.order[of.before].after, r.order[of.after].before = of.after, of.before
	if r.first == at {
		r.first = of.after
	}
	r.Rows[i] = row
	r.link(at)
}

// link makes a row that is in no ring the newest.
func (r *Reservoir) link(at int32) {
	if r.first == at { // the only one
		r.order[at] = neighbours{at, at}
		return
	}
	last := r.order[r.first].before
	r.order[at] = neighbours{last, r.first}
	r.order[last].after, r.order[r.first].before = at, at
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
