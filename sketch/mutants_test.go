package sketch

type mutant struct {
	name                                                                           string
	torn, withoutLedger, withoutRows, skipAtResume, controlApplied, abortedApplied bool
	noTruncation                                                                   bool // of the harness, not of the store
}
