// Package gate decides whether a challenger replaces the champion: both are scored on the same held-out rows, of which
// neither has learned one, and the challenger must not be worse.
//
// It does not install or publish: Decide writes decision, reason and cause into the challenger's version. It does not
// judge updates between refits (guard).
//
// Goroutines: all functions run on the goroutine of the refit and may read and change its task.Task only. The cycle's
// lock is not held and must not be taken.
//
// Files:
//
//	gate.go          Decide, and whether two versions can be compared at all
//	incumbent.go     what the challenger is compared with: champion, fallback or baselines (Incumbent)
//	pairedtest.go    the paired comparison of losses with bounded influence of single rows
//	slices.go        the same for parts of the rows: new and known entities
//	groupholdout.go  entities whose events are held out whole
//	degenerate.go    a model that predicts the same for all rows
//	plausible.go     labels of which too few held-out rows are seen to judge by
//	recent.go        the fold-in of recent rows on a posterior, for a fair comparison
package gate
