// Package quickstart is `refitd quickstart`: the daemon on an embedded broker, fed with a generated rating stream whose
// users change their taste, and the live table. Nothing here decides what is learned; the daemon reads the topic as it
// would read any other.
package quickstart
