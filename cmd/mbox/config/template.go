package config

import (
	"fmt"
	"io/fs"
	"strings"

	agentshome "mbox/agents-home"
)

// Template is the commented mbox.toml of a new home, with what mbox init is
// called with put into its lines: a mode of flushing, "" for the default, and
// whether a network file system is taken.
func Template(sync string, network bool) []byte {
	data, err := fs.ReadFile(agentshome.FS, "template/"+Name)
	if err != nil {
		panic(err) // it is part of the binary
	}
	text := string(data)
	if sync != "" {
		text = strings.Replace(text, `# sync = "standard"`, fmt.Sprintf("sync = %q", sync), 1)
	}
	if network {
		text = strings.Replace(text, "# allow_network_fs = false", "allow_network_fs = true", 1)
	}
	return []byte(text)
}

// Contradicts refuses what mbox init is called with where an mbox.toml from before
// does not follow it.
func (c *File) Contradicts(sync string, network bool) error {
	switch {
	case sync != "" && sync != c.Sync:
		return c.wrong("sync", "is %q here, and --sync %s was asked for", c.Sync, sync)
	case network && !c.AllowNetworkFS:
		return c.wrong("allow_network_fs", "is false here, and --allow-network-fs was asked for")
	}
	return nil
}
