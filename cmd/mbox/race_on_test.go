//go:build race

package main

// raced says that the race detector is at work.
const raced = true
