// Package versions has the published versions of a model ([Versions]): which one consumers have, which one challengers
// are compared with, its renewals and its deltas. [Live] copies the live model for requests. It does not train, and it
// does not decide when a version is due; package publish writes the files.
//
// Versions belong to the goroutine of the trainer. Serving, Judged, Unread, Trouble and NotReady are safe for
// concurrent use, and so is Live.
//
//	versions.go  the champion of an earlier run, moves by others, publications, renewals
//	deltas.go    deltas of a version, and digests of the whole version at some of them
//	salvage.go   another version in place of a damaged champion
//	ready.go     why consumers do not get a version
//	livecopy.go  copies of the live model
package versions
