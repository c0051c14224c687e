package admission

// keyCounts counts events of keys, which are hashes: a table with linear probing, at most half full. A map took
// three times as long.
type keyCounts struct {
	table []keyCount // a power of two
	used  int
}

// keyCount has no events where it is free.
type keyCount struct{ key, events uint32 }

// place returns where a key is, or would be.
func (k *keyCounts) place(key uint32) uint32 {
	mask := uint32(len(k.table) - 1)
	at := key & mask
	for k.table[at].events > 0 && k.table[at].key != key {
		at = (at + 1) & mask
	}
	return at
}

// of returns the events of a key.
func (k *keyCounts) of(key uint32) uint16 {
	if len(k.table) == 0 {
		return 0
	}
	return uint16(k.table[k.place(key)].events)
}

// add adds n events of a key, which has so many where n is negative, and returns how many it has then.
func (k *keyCounts) add(key uint32, n int) uint32 {
	if 2*(k.used+1) > len(k.table) && k.of(key) == 0 {
		old := k.table
		k.table = make([]keyCount, max(16, 2*len(old)))
		for _, of := range old {
			if of.events > 0 {
				k.table[k.place(of.key)] = of
			}
		}
	}
	at := k.place(key)
	of := &k.table[at]
	if of.events == 0 {
		of.key = key
		k.used++
	}
	if of.events = uint32(int(of.events) + n); of.events > 0 {
		return of.events
	}
	k.used--
	// Entries after it that would not be found any more move up (Knuth, volume 3, section 6.4, algorithm R).
	mask := uint32(len(k.table) - 1)
	for next := (at + 1) & mask; k.table[next].events > 0; next = (next + 1) & mask {
		if home := k.table[next].key & mask; (next-home)&mask >= (next-at)&mask {
			k.table[at], at = k.table[next], next
		}
	}
	k.table[at] = keyCount{}
	return 0
}
