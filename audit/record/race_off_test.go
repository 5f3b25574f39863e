//go:build !race

package record

const raced = false
