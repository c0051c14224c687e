package variational

import "github.com/refitd/refitd/daemon/cycle/refit/task"

// ConvexAgain is how often the convex stage runs although it cannot win, by versions: what it cannot do may change with
// the stream. It is prime, for refits come every so many versions, updates between them. Chosen by hand.
const ConvexAgain = 11

// leavesConvexOut reports whether a refit that starts from a posterior can do without the convex stage: that of the
// champion lost to the variational one, no basis vector is due that it would find, and the last version was not kept
// back. For outputs with separate weights it always runs.
func leavesConvexOut(j *task.Task, warm *task.WarmStart) bool {
	k := j.Model.Train.VariationalBasis(j.Rows.Problem.X.NumRows())
	t := &j.Model.Train
	return t.Refit == "variational" && !t.ConvexAlone() && !j.Target.Task.HasClasses() && j.Champion.Version.Sweeps > 0 &&
		j.Rejections == 0 &&
		warm.Version%ConvexAgain != 0 &&
		warm.Posterior.NumBasis >= k &&
		(warm.Gaussian == nil || warm.Gaussian.NumBasis >= k)
}
