//go:build race

package sandbox

// raced says that the race detector is at work. It has a thread of its own in each
// process that takes no signal, by which all threads are confined under cgo: a helper
// would wait for it for ever.
const raced = true
