// Package role is what a process does for a model ([Role]): all of it, what a shard does, or what the trainer does.
// Package shard has the topics that connect them; this package connects it with the state and the learning of a model.
// It does not read the input topics, train or publish: a role says whether its process does.
//
// The methods of a role are safe for concurrent use. Run has one goroutine that reads or merges; a shard has another
// that sends and one that forwards events, a trainer one that learns forwarded events ([Learner]). They end before Run
// returns.
//
//	role.go       the interfaces; the role of a process that does everything
//	shard.go      a shard: takes partitions up, reads, sends
//	trainer.go    a trainer: merges
//	turns.go      which of several trainers leads
//	term.go       what runs in a term only
//	forwarder.go  events of a shard, forwarded to the trainer
//	learner.go    the same events, learned by the trainer
//	cycle.go      the learning cycle with what the state has of it
//	moved.go      a state whose shard another process has taken
package role
