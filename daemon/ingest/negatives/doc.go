// Package negatives draws names that were not chosen, for events that are choices.
//
// It does not learn, stores nothing and reads no records: it sees decoded events in order, or the rows of a sample.
//
//   - candidates.go: [Candidates], the names of the last choices, in classes by how often they were chosen
//   - draw.go: which of them are negatives of a choice
//   - rows.go: the negatives of a sample, and of rows that are learned again
//
// Nothing here is safe for concurrent use, and nothing starts a goroutine: [Candidates] belong to who observes events.
//
// Choices are learned together with names that were not chosen. The state holds choices alone: negatives are drawn
// when a sample is taken, among the names of that sample, and when an event is observed, among those of the events
// before it. A draw depends on the names, on the seed of training and on where the event is in the log, so that a
// refit of the same sample is of the same rows, in which order and how often ever its events were read.
//
// A negative is a peer of the name that was chosen: it was chosen as often, and first and last at similar times, as far
// as there are such names. Nothing about the age or the count of a name then says the label. A name that was never
// chosen before has no peers: that it is new would say that it was chosen. Such a choice makes the name known and is
// learned from no further. What is learned is how much more likely than its peers a name is for who
// chooses; how likely these are, its popularity, is counted and added to what versions say (cycle.popularity).
//
// A choice comes after its negatives, and a coin decides after each event whether the next is one more of them: to who
// knows all events before, each is a choice with the same chance, whatever they were. With a fixed number of them, or
// behind the choice, the order of events would say the labels, and what learns from event to event would learn that.
package negatives
