// Package guess makes a configuration for a file that nobody has described: the verb init. From the profile of the
// columns it chooses the label, the task, the use of each column, the time and how often to refit.
//
// Files:
//
//	init.go     the options, the run, and the YAML that it writes
//	guess.go    the schema: label, task, and the use of each column
//	names.go    what the name of a column says: an id, a quantity, a time
//	trial.go    short trials on the rows: as names or as numbers, as classes or as levels
//	records.go  the fields with which replay writes the records of a file
//
// It does not read files itself (daemon/dataset does), does not train, and overwrites no configuration.
//
// All functions run on the goroutine of the caller, and a guess belongs to one run. The result is a function of the
// profile and the options.
package guess
