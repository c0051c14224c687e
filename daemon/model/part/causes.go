package part

// The causes for which a model is not ready: the values of the label reason of refitd_model_not_ready.
const (
	CauseReading       = "reading"       // the brokers do not answer, or partitions are not being read yet
	CauseHalted        = "halted"        // every partition waits for an operator
	CauseDisk          = "disk"          // reading and publishing pause until there is space
	CauseExpired       = "expired"       // consumers refuse the version that they have
	CauseStore         = "store"         // the store of versions is lost, or did not take the last one
	CauseUnpublishable = "unpublishable" // the last version is none that could be published
	CauseNoVersion     = "no_version"    // refits end, and none of them with a version for consumers
	CauseScoring       = "scoring"       // events are not answered in the topic of scores
	CauseShards        = "shards"        // rows do not reach the trainer
	CauseBehind        = "behind"        // far behind its log, with web.ready_when: caught_up
)

// Causes are all of them, in the order of the constants.
var Causes = []string{
	CauseReading,
	CauseHalted,
	CauseDisk,
	CauseExpired,
	CauseStore,
	CauseUnpublishable,
	CauseNoVersion,
	CauseScoring,
	CauseShards,
	CauseBehind,
}
