package choices

import "sort"

// popularity keeps names by how often they were chosen, the most popular first. Of equally popular ones the order is
// any, but the same each time.
type popularity struct {
	names  []string
	counts []int
	at     map[string]int
}

// add counts a choice of a name.
func (p *popularity) add(name string) {
	i, known := p.at[name]
	if !known {
		i = len(p.names)
		p.names, p.counts = append(p.names, name), append(p.counts, 0)
		p.at[name] = i
	}
	count := p.counts[i]
	first := sort.Search(i, func(j int) bool { return p.counts[j] <= count }) // of the names as popular as this one
	p.swap(i, first)
	p.counts[first]++
}

// remove takes back one choice of a name that has one.
func (p *popularity) remove(name string) {
	i := p.at[name]
	count := p.counts[i]
	last := i + sort.Search(
		len(p.counts)-i,
		func(j int) bool { return p.counts[i+j] < count },
	) - 1 // of the names as popular as this one
	p.swap(i, last)
	if p.counts[last]--; p.counts[last] > 0 {
		return
	}
	delete(p.at, name) // which is the last of all
	p.names[last] = ""
	p.names, p.counts = p.names[:last], p.counts[:last]
}

// swap exchanges two names that are as popular as each other.
func (p *popularity) swap(i, j int) {
	p.names[i], p.names[j] = p.names[j], p.names[i]
	p.at[p.names[i]], p.at[p.names[j]] = i, j
}

// place returns the place of a name among the most popular ones that are not in seen, 0 if it is not among the first
// Listed.
func (p *popularity) place(name string, seen map[string]int) int {
	place := 0
	for _, other := range p.names {
		if seen[other] > 0 {
			continue
		}
		if place++; other == name {
			return place
		} else if place == Listed {
			break
		}
	}
	return 0
}
