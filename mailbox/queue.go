package mailbox

import (
	"cmp"
	"container/heap"
)

// queueHeap orders the ready records of one class and priority.
type queueHeap []*record

func (q queueHeap) Len() int { return len(q) }
func (q queueHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].created, q[j].created), cmp.Compare(q[i].id, q[j].id)) < 0
}

func (q queueHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push is for container/heap.
func (q *queueHeap) Push(v any) {
	r := v.(*record)
	r.place = len(*q)
	*q = append(*q, r)
}

// Pop is for container/heap.
func (q *queueHeap) Pop() any {
	last := len(*q) - 1
	r := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	r.place = -1
	return r
}

// timeHeap orders the waiting records by the time at which to look at them.
type timeHeap []*record

func (h timeHeap) Len() int           { return len(h) }
func (h timeHeap) Less(i, j int) bool { return h[i].wake < h[j].wake }
func (h timeHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].rest, h[j].rest = i, j
}

// Push is for container/heap.
func (h *timeHeap) Push(v any) {
	r := v.(*record)
	r.rest = len(*h)
	*h = append(*h, r)
}

// Pop is for container/heap.
func (h *timeHeap) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	r.rest = -1
	return r
}

func (h *timeHeap) drop(r *record) {
	if r.rest >= 0 {
		heap.Remove(h, r.rest)
	}
}
