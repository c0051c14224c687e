// Package rowmath has the sums that scoring spends its time in, over rows of numbers, several at a time: sums in
// registers hide the latency of additions; and the cosines of maps of numbers. It knows no model and allocates nothing
// that is not asked for. Functions keep no state; the caller owns all slices.
package rowmath
