// Package simulation runs the whole daemon in one synctest bubble, on a clock that jumps to the next thing that happens
// and brokers in memory behind a network of pipes: hours of a daemon's life in a second, with seeded faults, and what
// has to hold looked at after each. What only real processes, disks and sockets can show is in daemon/faults.
//
// It is all in tests. With the build tag failpoint the daemon dies at its durable steps, too, where package failpoint
// names them.
package simulation
