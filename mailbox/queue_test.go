package mailbox

import (
	"reflect"
	"sync"
	"unsafe"

	"pgregory.net/rapid"

	"mbox/mailbox/queue"
)

// inside is a field of a queue that only its package knows.
func inside[T any](q *queue.Queue, field string) T {
	v := reflect.ValueOf(q).Elem().FieldByName(field)
	return *(*T)(unsafe.Pointer(v.UnsafeAddr()))
}

// lockOf is the lock of a queue.
func lockOf(q *queue.Queue) *sync.Mutex {
	return (*sync.Mutex)(unsafe.Pointer(reflect.ValueOf(q).Elem().FieldByName("mu").UnsafeAddr()))
}

// hasBase tells whether a queue began with a snapshot.
func hasBase(q *queue.Queue) bool { return !reflect.ValueOf(q).Elem().FieldByName("base").IsNil() }

// another is a queue of the same ledger that writes nothing: one that begins with
// the snapshot of a home, or from zero where that has none.
func another(b *Box, home string) *queue.Queue {
	return queue.New(queue.Options{
		Home: home, Mailbox: b.id, Boot: b.boot, Ledger: b.ledger.Ledger, Looks: true, Now: b.o.Now, Progress: func(string, int64, int64) {},
	})
}

// saved writes a snapshot of what the ledger says.
func saved(t rapid.TB, b *Box) {
	t.Helper()
	must(t, b.queue.Save())
}
