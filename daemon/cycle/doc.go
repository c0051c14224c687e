// Package cycle is the learning cycle of one model: score an event, learn from it, and from time to time install a
// refit. Its order never changes: score → learn → install. Each event is scored by every predictor before anything
// learns from it, so that the losses it reports are those of predictions.
//
// It does no I/O and has no clock for events. It does not read Kafka, store rows, write versions or serve HTTP:
// package ingest calls it with events, package model on schedule, and a backtest from a file. All get the same
// numbers. The parts of the cycle are in the packages below; this package owns the state of one model and the only
// lock.
//
// # State
//
// A Cycle has its Options, the backlog, and five values that own the rest: ensemble (learners, mixture), watch (drift),
// progress (losses), publisher (what consumers have and get next), lineage (refits since the champion). All of them
// share common: both locks, configuration, target and champion.
//
// # Who calls what
//
//	learning goroutine of ingest   Recall, Relearn (at the start), then ObserveAll; Reach, Recreated, Known if Forwarded
//	scoring goroutine of ingest    BatchScorer.Refresh and Score, ahead of ObserveAll
//	refit goroutine                Refit; it holds mu to read what the refit starts from, and to report
//	trainer                        Install, Adopt, Renumber, CompareWith, Configure, BeginUpdate, TakeUp, PublishUpdate,
//	                               EndUpdate, TakeDelta, Delta, PublishDelta, EndDeltas, AsksUpdate, DriftAlarms,
//	                               TakeHeldBack; Schedule says when
//	writer of an update            Update.Make, without the lock
//	live copies                    Live, one at a time
//	HTTP, scrapes                  Progressive, WindowLosses, Names, Resets, Evicted, Held
//
// A backtest calls all of them from one goroutine.
//
// # Locks
//
// The order is Cycle.mu, then Cycle.reportMu. A goroutine that holds reportMu must not take mu. mu guards the state.
// reportMu guards what reports read: a writer holds both, a reader reportMu alone. So a scrape does not wait while an
// update copies a million names under mu. A function whose comment says "c.mu is held" takes no lock of its caller.
// ObserveAll holds both for at most 256 events. Install holds mu for short times, but for a Gradient learner, whose
// experts are shared with the running one. pipeline.mu is below both: only the holder of mu and the goroutines that it
// started take it. The rooms below have no lock; what belongs to a cycle there is guarded by mu.
//
// # The life of an event
//
//  1. BatchScorer scores it with the version that consumers have (updates.Served), on another goroutine.
//  2. ObserveAll takes a chunk: weights are limited (weigh), and EntityCap decides what of each event counts (admit).
//  3. pipeline has the fold-in and the experts predict and learn events ahead of the rest, each on a lane; without a
//     second processor, in turn.
//  4. observe adds the outcome of each role to evaluate.Progressive, and compares the update with the refit.
//  5. The guard's rows, the drift watch, and last the mixture and the baselines learn from it.
//  6. Its bytes are added to the backlog, so that a refit that has not seen it can learn it at Install.
//
// # The life of a refit
//
//  1. Schedule.RefitDue. The trainer copies a sample and calls Refit, which makes a task.Task under mu.
//  2. refit.Run chooses and trains; gate.Decide compares the challenger with the champion. Nothing is installed.
//  3. The trainer publishes it and calls Install: a new fold-in starts on it and learns the backlog after it, while
//     Observe continues. The last events are learned under mu, and one assignment exchanges champion and learners.
//  4. Deltas and the update of the previous champion end; consumers have the refit.
//
// # The life of an update and its deltas
//
//  1. BeginUpdate copies the live model in each variant, under mu. The guard bars variants, VariantSelector chooses.
//  2. Update.Make builds the version without the lock. TakeUp then scores events with it, published or not.
//  3. The trainer publishes it, and PublishUpdate makes it what consumers have. If that failed, EndUpdate drops it.
//  4. TakeDelta encodes the rows that events touched. Delta returns the oldest one that waits; the trainer publishes it
//     once its events are stored, then calls PublishDelta.
//  5. BeginCompaction makes the update and its deltas one version, while deltas continue. A refit, an alarm that widens
//     rows, or a row that deltas cannot express ends the stream; a whole version comes next.
//
// # Not obvious
//
//   - The live model learns held-out events. They stay unseen by what is judged, as no refit continues from the live
//     model: a refit starts from the posteriors of the champion without held-out rows.
//   - A prescored event counts only while Served is the same pointer; otherwise it is scored again.
//   - Each expert that sees numbers has a running scale of them, all alike: experts learn side by side.
//   - An event on which an expert panics is left out by the mixture, while other experts have learned it.
//   - A chunk ends where checkLive may replace the fold-in or experts may fall asleep or wake, so that results do not
//     depend on the size of a batch.
//   - Losses are of the label as it came; what is learned is the winsorised label.
//   - Variants of updates are scored whether consumers have updates or not. If updates lose, the refit is published
//     again, and updates come back once they have won by a standard error.
//   - The place of a variant in the table of variants decides ties. Nothing stores or sends it.
//   - After an alarm on names the old fold-in continues as an expert, as most rows of the next refit are older.
//   - A panic on an event leaves that event out; the deferred unlocks keep the cycle usable.
//   - If Forwarded, an event may be in a refit before it comes: it is scored and not learned (knows).
//   - Only the updating goroutine assigns publisher.deltas, under mu; it may read the pointer without the lock.
//   - A refit that failed from a champion is not continued from it again: the next one starts cold (nextStart).
//
// # Rooms, from the bottom
//
//	rows               bytes and positions of events, tables of names
//	tables             what is known of entities, joined to events
//	encode             targets, vocabulary, columns, scales
//	evaluate           losses before learning
//	fitted             a trained model and what continues it
//	kdtree             rows of a matrix near a point
//	admission          what of an event is learned; corrected labels
//	experts            online learners
//	baselines          predictors without a model
//	mixture            the live prediction; variants of updates
//	drift              alarms on change
//	guard              may consumers have this update
//	refit/task         what the stages of a refit share
//	gate               may the challenger replace the champion
//	refit/convex       Algorithm 1 and the other algorithms
//	refit/variational  posterior sweeps
//	refit/choose       half-life, feature map, clipping
//	refit              the order of the stages; offline fits
//	updates            updates, deltas, compaction
//	schedule           when refits, updates and deltas are due
//
// # Files of this package
//
//	cycle.go, pipeline.go, batchscore.go         score and learn
//	common.go                                    what all parts share; what a caller sets
//	ensemble.go, experts.go, sleep.go, alarms.go  learners, which sleep, what they learn, alarms
//	lineage.go, refit.go, adopt.go               refits, and how their versions become the champion
//	publisher.go, update.go, deltas.go, compaction.go, live.go  updates
//	variants.go, variantfoldin.go, variantnewton.go, variantpairs.go, blend.go, variantpool.go  what updates are made of
//	report.go, footprint.go                      what is reported; bytes of memory
package cycle
