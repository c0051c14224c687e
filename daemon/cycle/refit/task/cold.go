package task

// A coldStart is a refit that starts from nothing although there is a champion. The zero value is a refit that
// continues from the champion.
type ColdStart struct {
	Begins bool
	Why    string // "" where it was asked for
}
