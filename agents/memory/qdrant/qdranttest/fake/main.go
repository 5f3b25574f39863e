// Command fake is a fake Qdrant server for scripts: it writes its address, and ends with
// its standard input. MBOX_TEST_QDRANT_KEY has the key that it wants.
package main

import (
	"fmt"
	"io"
	"os"

	"mbox/agents/memory/qdrant/qdranttest"
)

func main() {
	s, err := qdranttest.Start(os.Getenv(qdranttest.KeyVariable), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.Address)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
