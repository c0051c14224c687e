package ledger

// A Fate is what became of a record. The zero value is invalid.
type Fate uint8

const (
	Applied  Fate = iota + 1 // a valid event: it may enter the sample
	Rejected                 // not a valid event; Record.Reason says why
	Control                  // a transaction marker
	Aborted                  // of an aborted transaction
)

// A Role is what an applied event is for.
type Role uint8

const (
	Train    Role = iota // training rows
	Select               // held out: choice of strength, basis size and stopping
	Gate                 // held out: is a new model better than the champion?
	NumRoles             // the number of roles
)

// String returns the name of the role, as messages have it.
func (r Role) String() string {
	return [...]string{"train", "select", "gate", "none"}[min(r, NumRoles)]
}
