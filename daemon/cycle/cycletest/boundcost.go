package cycletest

import "math"

// What learning.md says of the weights, with its constants. The sum of the losses by the weights, over any T events in
// which and at the event before the same N parts predict, is at most BoundFactor times what any part loses and
// BoundCost.
const BoundFactor = 2.64

func BoundCost(parts, events int) float64 {
	return (math.Log(1000*float64(parts)) + 9.91 + 0.00111*float64(events)) / 0.3
}
