//go:build !cgo

package sandbox

const withCgo = false
