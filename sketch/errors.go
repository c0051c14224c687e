package sketch

import "github.com/refitd/refitd/sketch/internal/fault"

// What callers branch on. Each is wrapped with the values that explain it.
var (
	// ErrLocked: another process has the state directory open.
	ErrLocked = fault.ErrLocked
	// ErrCorrupt: the state is damaged or incomplete.
	ErrCorrupt = fault.ErrCorrupt
	// ErrFormat: the state was written by a newer version of this program.
	ErrFormat = fault.ErrFormat
	// ErrConfig: the state was made with other sample settings. The error is a *ConfigError.
	ErrConfig = fault.ErrConfig
	// ErrNoState: there is no state in the directory.
	ErrNoState = fault.ErrNoState
	// ErrPart: a part contradicts itself or the ledger. Nothing of it was applied.
	ErrPart = fault.ErrPart
	// ErrSpace: the file system has too little free space to open or close the state. Nothing was changed.
	ErrSpace = fault.ErrSpace
	// ErrInodes: the same of files. It wraps ErrSpace.
	ErrInodes = fault.ErrInodes
	// ErrNetwork: the state would be on a network's file system. Nothing was changed.
	ErrNetwork = fault.ErrNetwork
	// ErrGone: the directory of an open state was removed or replaced. Nothing can be stored any more.
	ErrGone = fault.ErrGone
	// ErrStorage: a write failed and may or may not be durable. The process has to open the state again.
	ErrStorage = fault.ErrStorage
)
