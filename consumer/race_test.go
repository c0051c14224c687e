//go:build race

package consumer

// raceEnabled says that code runs ten times slower.
const raceEnabled = true
