package queue

import "container/heap"

// pile is a heap of entries: of one class and priority in the order of their turn,
// or of all that wait for a time, in its order.
type pile struct {
	entries []*Entry
	by      int // byTurn or byTime
}

const (
	byTurn = iota
	byTime
)

func (p *pile) Len() int { return len(p.entries) }

func (p *pile) Less(i, j int) bool {
	if p.by == byTime {
		return p.entries[i].wake < p.entries[j].wake
	}
	return p.entries[i].age(p.entries[j]) < 0
}

func (p *pile) Swap(i, j int) {
	p.entries[i], p.entries[j] = p.entries[j], p.entries[i]
	p.entries[i].place[p.by], p.entries[j].place[p.by] = i+1, j+1
}

// Push is for container/heap.
func (p *pile) Push(v any) {
	p.entries = append(p.entries, v.(*Entry))
	v.(*Entry).place[p.by] = len(p.entries)
}

// Pop is for container/heap.
func (p *pile) Pop() any {
	last := len(p.entries) - 1
	e := p.entries[last]
	p.entries[last] = nil
	p.entries = p.entries[:last]
	e.place[p.by] = 0
	return e
}

// head is the first of the pile, nil if there is none.
func (p *pile) head() *Entry {
	if len(p.entries) == 0 {
		return nil
	}
	return p.entries[0]
}

// add puts the entry on the pile, at the place that its time has now.
func (p *pile) add(e *Entry) {
	p.drop(e)
	heap.Push(p, e)
}

// drop takes the entry off, if it is there.
func (p *pile) drop(e *Entry) {
	if at := e.place[p.by]; at > 0 {
		heap.Remove(p, at-1)
	}
}
