package config

import "github.com/refitd/refitd/daemon/config/scalar"

// Auto is the value of a setting that follows from the task and the features.
const Auto = scalar.Auto

// AutoCatchUp is the train.catch_up of auto.
const AutoCatchUp = scalar.AutoCatchUp

// The types of single values, as the structs of this package have them.
type (
	Duration  = scalar.Duration
	Size      = scalar.Size
	Secret    = scalar.Secret
	Switch    = scalar.Switch
	Lambda    = scalar.Lambda
	Linear    = scalar.Linear
	Vectors   = scalar.Vectors
	TopK      = scalar.TopK
	CatchUp   = scalar.CatchUp
	ClassName = scalar.ClassName
)
