package task

import "github.com/refitd/refitd/daemon/cycle/fitted"

// A Fallback is what challengers are compared with while there was a champion and it cannot be read: another version,
// or the baselines if that is nil.
type Fallback struct{ Version *fitted.Fitted }
