//go:build !simulation

package snapshot

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

// dirWatch wakes a goroutine that waits for something to change in a directory. Where the kernel says nothing,
// because the directory is another machine's, is not there or no more may be watched, waiting ends by time alone. One
// goroutine at a time may use it.
type dirWatch struct {
	path string
	wake chan struct{} // has room for one
	id   int32         // of the kernel's watch, guarded by notifier.mu; 0 is none
}

// watchDir begins to note changes in a directory: what changes from now on, wait does not sleep through. The caller
// closes it.
func watchDir(path string) *dirWatch {
	w := &dirWatch{path: path, wake: make(chan struct{}, 1)}
	inotify.add(w)
	return w
}

// wait returns when the directory may have changed since the last wait, or after most, or with the error of ctx. Names
// that begin with a dot are of files that are still being written, and do not count.
func (w *dirWatch) wait(ctx context.Context, most time.Duration) error {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.wake:
	case <-t.C:
	}
	inotify.add(w) // another directory may have come into its place
	return nil
}

func (w *dirWatch) close() { inotify.remove(w) }

const (
	// changesOf are the events of a directory: files renamed into it, replaced, written to, linked, removed; its own
	// removal or renaming.
	changesOf = syscall.IN_MOVED_TO | syscall.IN_CLOSE_WRITE | syscall.IN_MODIFY | syscall.IN_CREATE |
		syscall.IN_DELETE | syscall.IN_DELETE_SELF |
		syscall.IN_MOVE_SELF | syscall.IN_ONLYDIR
	// how long the descriptor is kept when nobody watches: a watcher that loads comes back
	notifierIdle  = 100 * time.Millisecond
	notifierBytes = 64 << 10
)

// notifier shares one descriptor of the kernel, of which a user has few (fs.inotify.max_user_instances), among all who
// watch. Directories that several watch are one watch of the kernel.
type notifier struct {
	mu      sync.Mutex
	file    *os.File // nil while nobody watches, and where the kernel has none for us
	watches map[int32]map[*dirWatch]struct{}
	// how many ask the kernel for a watch at the moment, outside the lock: a disk that does not answer holds up its own
	// watchers only
	adding int
}

var inotify notifier

// add makes w a watch of what is now at its path, if that can be watched.
func (n *notifier) add(w *dirWatch) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.file == nil && !n.open() {
		return
	}
	f := n.file
	n.adding++
	n.mu.Unlock()
	id := int32(0)
	control(f, func(fd int) {
		if got, err := syscall.InotifyAddWatch(fd, w.path, changesOf); err == nil {
			id = int32(got)
		}
	})
	n.mu.Lock()
	n.adding--
	if n.file != f { // reading it failed since
		return
	}
	if id != w.id {
		n.drop(w)
		if id != 0 {
			if n.watches[id] == nil {
				n.watches[id] = make(map[*dirWatch]struct{})
			}
			n.watches[id][w], w.id = struct{}{}, id
		}
	}
	n.idle()
}

// control calls do with a descriptor that is not closed before it returns, or not at all.
func control(f *os.File, do func(fd int)) {
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { do(int(fd)) }) // of a closed file it is not called
	}
}

// open starts the goroutine that reads. It ends when nobody watches any more.
func (n *notifier) open() bool {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return false
	}
	n.file, n.watches = os.NewFile(uintptr(fd), "inotify"), make(map[int32]map[*dirWatch]struct{})
	go n.read(n.file)
	return true
}

func (n *notifier) remove(w *dirWatch) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop(w)
	n.idle()
}

// drop takes w from its watch, and the watch from the kernel if it was the last. While somebody is being given a watch,
// which may be that one, it stays: what it says is heard by nobody, and it ends with the descriptor or the directory.
func (n *notifier) drop(w *dirWatch) {
	id, watch := w.id, n.watches[w.id]
	w.id = 0
	delete(watch, w)
	if id == 0 || len(watch) > 0 {
		return
	}
	delete(n.watches, id)
	if n.adding == 0 {
		control(
			n.file,
			func(fd int) { _, _ = syscall.InotifyRmWatch(fd, uint32(id)) },
		) // the kernel may have removed it with the directory
	}
}

// idle lets the reader end in a while if nobody watches.
func (n *notifier) idle() {
	if n.file == nil {
		return
	}
	var until time.Time
	if len(n.watches) == 0 {
		until = time.Now().Add(notifierIdle)
	}
	_ = n.file.SetReadDeadline(until) // it has one: the kernel can be asked whether there is something to read
}

func (n *notifier) read(f *os.File) {
	buffer := make([]byte, notifierBytes)
	for {
		size, err := f.Read(buffer)
		if err != nil {
			if n.ended(err) {
				f.Close()
				return
			}
			continue
		}
		n.wake(buffer[:size])
	}
}

// ended reports whether the reader has nothing more to do: nobody watches, or reading failed, for which it wakes all
// watches.
func (n *notifier) ended(err error) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if errors.Is(err, os.ErrDeadlineExceeded) && len(n.watches)+n.adding > 0 {
		n.idle()
		return false
	}
	for id := range n.watches {
		n.tellAll(id, true)
	}
	n.file, n.watches = nil, nil
	return true
}

// wake wakes the watches that the events are for.
func (n *notifier) wake(events []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(events) >= syscall.SizeofInotifyEvent {
		id, mask := int32(binary.NativeEndian.Uint32(events)), binary.NativeEndian.Uint32(events[4:])
		size := int(binary.NativeEndian.Uint32(events[12:])) // of the name that follows
		name := events[syscall.SizeofInotifyEvent : syscall.SizeofInotifyEvent+size]
		events = events[syscall.SizeofInotifyEvent+size:]
		switch {
		case mask&syscall.IN_Q_OVERFLOW != 0: // nobody knows of what the events were
			for id := range n.watches {
				n.tellAll(id, false)
			}
		case size == 0 || name[0] != '.':
			n.tellAll(id, mask&syscall.IN_IGNORED != 0)
		}
	}
}

// tellAll wakes the watches that share a watch of the kernel; gone says that the kernel has it no more.
func (n *notifier) tellAll(id int32, gone bool) {
	for w := range n.watches[id] {
		select {
		case w.wake <- struct{}{}:
		default: // it is to wake already
		}
		if gone {
			w.id = 0
		}
	}
	if gone {
		delete(n.watches, id)
	}
}
