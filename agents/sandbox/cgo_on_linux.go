//go:build cgo

package sandbox

// withCgo says that this is built with cgo. Then go-landlock reaches the threads of a
// process by libpsx, which looks for them in /proc. A helper sees the /proc of its
// parent until it has its own, is process 1, and would look in there for ever for
// threads that are not its.
const withCgo = true
