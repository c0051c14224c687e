package cycle

import (
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
)

// CompareWith lets challengers be compared with a version in place of a champion that cannot be read, or with the
// baselines if it is nil, rather than be promoted as the first version. Nothing continues from it. It counts until a
// champion is installed.
func (l *lineage) CompareWith(version *fitted.Fitted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fallback = &task.Fallback{Version: version}
}

// Rejections returns how many challengers in a row the gate has kept back because they were worse or could not be used,
// since the start or the last champion. The refit after the third starts from nothing.
func (l *lineage) Rejections() int {
	l.reportMu.Lock()
	defer l.reportMu.Unlock()
	return l.rejections
}

// judged counts the decision on a challenger.
func (l *lineage) judged(cause fitted.Cause) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reportMu.Lock()
	defer l.reportMu.Unlock()
	switch cause {
	case "worse", "worse_than_baseline", "not_finite", "degenerate":
		l.rejections++
	}
}
