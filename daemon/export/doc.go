// Package export writes what refitd holds in formats that other programs read: a published version as an ONNX model,
// and the sample of a state as JSON Lines or LIBSVM. It trains nothing and changes nothing.
package export
