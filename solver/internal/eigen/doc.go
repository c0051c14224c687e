// Package eigen decomposes symmetric matrices and the spans of basis vectors.
// It knows no problem. Functions keep no state.
package eigen
