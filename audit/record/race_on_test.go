//go:build race

package record

// raced says that the race detector is at work. It empties every sync.Pool at
// random, package regexp's too, so what is allocated says nothing.
const raced = true
