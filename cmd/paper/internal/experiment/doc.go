// Package experiment repeats the experiments of Blondel et al. 2017 (Multi-output polynomial networks and
// factorization machines, section 6 and appendix F). They are seeded protocols over the public data sets that the
// paper used: table 2 and figures 2 to 5. It adds the cost of a warm start and the speed. Each experiment gives a
// Report: tables, figures, and the bars it is held to.
//
// Features are those of the LIBSVM files, scaled to [−1, 1], with one constant column in front for polynomial
// networks; ratings are one-hot user and item. A split is numpy's permutation of the rows for its number as the seed: a
// quarter to test on, a quarter to validate on, the rest to train on. λ and the number of basis vectors are chosen on
// the validation rows, along the path of Algorithm 1 (section 6.1).
// Of Blondel et al. 2015 (Convex factorization machines) it has table 2 and figure 1 on ML-100k.
//
// SVM2020 repeats those of Tajima et al. 2020 in the same way.
// It adds figures 1 to 4 of Blondel et al. 2016 (Polynomial networks and factorization machines), by coordinate
// descent.
//
// Parts is of no paper: it measures what each part of the learner gains on streams, for configs/docs/performance.md.
//
// Only the program cmd/paper uses it; the daemon runs nothing of it.
package experiment
