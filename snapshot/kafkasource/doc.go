// Package kafkasource lets snapshot.Watch follow Kafka topics: that of announcements (publish.topic), which says what
// is the champion, and that of deltas (publish.deltas.topic). It brings along franz-go and nothing of the daemon.
//
//	source, err := kafkasource.NewSource([]kgo.Opt{kgo.SeedBrokers("127.0.0.1:9092")}, "refitd.champions",
//		snapshot.HTTPSource{URL: "http://refitd:8080"}, keys, nil)
//	go source.Run(ctx)
//	w, err := snapshot.Watch(source, snapshot.WatchOptions{Model: "ratings", Trust: snapshot.Trust{Keys: keys}})
//
// A record of the topic of announcements has the model as its key, so a compacted topic keeps the last of each; its
// value
// is what the alias says, the digests of the version's files and a summary of its manifest, and under a limit the files
// themselves. The package neither writes to topics, as the daemon does, nor commits offsets: it reads each topic whole.
//
// Run belongs to one goroutine. All other methods of a Source may be called concurrently; what they share is behind its
// mutex, and those who wait are woken by a channel that is closed with every change.
//
//	announcement.go    Announcement: the value of a record
//	source.go          Source: the last announcement of each model; its reader
//	chains.go          the deltas of the topic that were not taken back
package kafkasource
