//go:build failpoint && simulation

package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// A member is what one daemon is for: all of a model, or a shard of it, or its trainer. It has one process at a time,
// but for those that were taken for dead.
type member struct {
	name     string
	role     string // the keys role and shard of its configuration; empty for a daemon that is whole
	number   int    // of a shard; of any other -1
	config   string
	state    string // directory of the state
	process  *process
	dieAfter int64           // durable steps of the next life; negative: it does not die of them
	next     map[int32]int64 // of each partition, as the last life left it
	away     bool            // it is not started for a while: the others of its group have its shards
}

// enlist makes the members of a team of so many shards, or a daemon that is whole for 0. Processes, if there are any,
// are given the shards by a group.
func (w *world) enlist(shards, processes int) {
	add := func(name, role string, number int) *member {
		m := &member{
			name:     name,
			role:     role,
			number:   number,
			config:   filepath.Join(w.dir, name+".yaml"),
			state:    filepath.Join(w.dir, "state-"+name),
			dieAfter: -1,
			next:     map[int32]int64{},
		}
		w.members = append(w.members, m)
		return m
	}
	if shards == 0 {
		w.publisher = add("whole", "", -1)
		return
	}
	for i := range processes {
		add(fmt.Sprint("process", i),
			fmt.Sprintf("role: shard\nshard: {group: shards, count: %d, session: 30s, topic: %s}", shards, merge), -1)
	}
	for i := range shards {
		if processes > 0 {
			break
		}
		add(fmt.Sprint("shard", i),
			fmt.Sprintf("role: shard\nshard: {count: %d, index: %d, topic: %s}", shards, i, merge), i)
	}
	w.publisher = add("trainer", fmt.Sprintf("role: trainer\nshard: {count: %d, topic: %s}", shards, merge), -1)
}

// owner returns who reads a partition, or, where that changes, who merges it.
func (w *world) owner(partition int32) *member {
	if w.grouped {
		return w.publisher
	}
	return w.members[int(partition)%max(1, len(w.members)-1)]
}

// start begins a life on what the one before left.
func (w *world) start(m *member) error {
	conf, err := config.Load(m.config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	p := &process{net: newNetwork(w.pipes), cancel: cancel, ended: make(chan struct{})}
	p.steps.Store(m.dieAfter)
	m.dieAfter = -1
	conf.Kafka.Dial, conf.Storage.Path = p.net.dial, m.state
	p.within(ctx, func(ctx context.Context) {
		p.daemon, err = daemon.New(ctx, daemon.Options{Config: conf, Out: report.NewEmitter(&p.out, true),
			StartFresh: w.isTeam() || w.lost, // for a state that was lost
			Log:        slog.New(slog.NewTextHandler(&w.log, nil)).With("member", m.name), Listen: w.listen})
		if err == nil {
			m.process = p
			go func() {
				p.err = p.daemon.Run(ctx)
				close(p.ended)
				select {
				case w.ended <- struct{}{}:
				default:
				}
			}()
		}
	})
	if err == nil {
		return nil
	}
	processes.Delete(p.label)
	if !p.killed.Load() {
		return fmt.Errorf("a start of %s: %w", m.name, err)
	}
	if err := m.abandoned(); err != nil {
		return err
	}
	return w.start(m)
}

// end waits until the process has ended, and looks at what it leaves.
func (w *world) end(m *member) error {
	p := m.process
	m.process = nil
	<-p.ended
	processes.Delete(p.label)
	if err := m.abandoned(); err != nil {
		return err
	}
	return errors.Join(p.trouble(m.name), w.left(m))
}

// abandoned puts a copy of the state in its place, as a killed process has left it: its database is still open here,
// and closing it writes.
func (m *member) abandoned() error {
	copied := m.state + "-copied"
	if err := os.MkdirAll(m.state, 0o700); err != nil { // it may not have come to one
		return err
	}
	err := os.CopyFS(copied, os.DirFS(m.state))
	if err = errors.Join(err, sketch.CloseAbandoned(m.state)); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(m.state), os.Rename(copied, m.state), m.forgive())
}

// forgive takes back that storage has failed: a kill is to a simulated process an error of its storage, which a real
// one does not live to write down, and three within ten minutes keep a daemon from starting.
func (m *member) forgive() error {
	for _, of := range []string{modelName, filepath.Join("shard-*", modelName)} {
		files, err := filepath.Glob(filepath.Join(m.state, of, "storage-errors"))
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	return nil
}

// stop ends the process in order.
func (w *world) stop(m *member) error {
	m.process.cancel()
	return w.end(m)
}

// left looks at what a life leaves: a state that is whole and has not gone back, and versions of nothing that the state
// has not.
func (w *world) left(m *member) error {
	if w.grouped && m != w.publisher {
		return w.leftShards(m)
	}
	s, err := sketch.OpenExisting(context.Background(), filepath.Join(m.state, modelName), nil)
	if err != nil {
		return fmt.Errorf("the state that %s left: %w", m.name, err)
	}
	if err := s.Check(); err != nil {
		return errors.Join(fmt.Errorf("the state that %s left: %w", m.name, err), s.Close())
	}
	for _, l := range s.Ledger() {
		if l.Next < m.next[l.Partition] {
			err = errors.Join(
				err,
				fmt.Errorf("%s: partition %d went from %d back to %d", m.name, l.Partition, m.next[l.Partition],
					l.Next),
			)
		}
		m.next[l.Partition] = l.Next
	}
	if err := errors.Join(err, w.compareSample(m, s), s.Close()); err != nil || m != w.publisher {
		return err
	}
	if err := w.look(); err != nil {
		return err
	}
	for number, next := range w.cut {
		if next > m.next[number] && !w.lost { // which may have come to its end before it was as far again
			return fmt.Errorf("version %d is of %d records of partition %d, the state of %d", w.version, next, number,
				m.next[number])
		}
	}
	return nil
}

// leftShards is left of a process to which a group gave shards: of each state that it has had.
func (w *world) leftShards(m *member) error {
	dirs, err := filepath.Glob(filepath.Join(m.state, "shard-*", modelName))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		s, err := sketch.OpenExisting(context.Background(), dir, nil)
		if errors.Is(err, sketch.ErrNoState) { // it died while it made one
			continue
		}
		if err != nil {
			return fmt.Errorf("the state that %s left: %w", m.name, err)
		}
		_, _, taking, err := s.Merged() // then it is not whole, and is taken up again
		for _, l := range s.Ledger() {
			at := fmt.Sprint(s.Lineage(), l.Partition)
			if l.Next < w.reached[at] {
				err = errors.Join(err,
					fmt.Errorf("partition %d went from %d back to %d", l.Partition, w.reached[at], l.Next))
			}
			w.reached[at] = l.Next
		}
		if !taking {
			err = errors.Join(err, s.Check(), w.compareSample(m, s))
		}
		if err = errors.Join(err, s.Close()); err != nil {
			return fmt.Errorf("the state that %s left in %s: %w", m.name, filepath.Base(filepath.Dir(dir)), err)
		}
	}
	return nil
}
