// Package inference is the messages and the service of the Open Inference Protocol over gRPC, as inference.proto says.
// Package web serves it.
package inference
