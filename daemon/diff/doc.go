// Package diff looks into published versions: what two of them have in common, what one of them believes. It reads
// models only; it neither trains nor publishes.
package diff
