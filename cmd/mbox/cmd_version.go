package main

import (
	"cmp"
	"context"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"mbox/audit"
)

// version is set by the linker for a release.
var version = ""

type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitzero"`
	Format   int    `json:"format"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func versionVerb() *verb {
	var inJSON bool
	return &verb{
		name:  "version",
		brief: "tell the version of mbox and of the format",
		about: "Tells the version of this binary, the revision that it was built from, and the\nformat of the mailboxes that it makes; it brings older ones up to that.",
		flags: []cli.Flag{jsonFlag(&inJSON)},
		run: func(_ context.Context, s *session, _ []string) error {
			v := thisVersion()
			if inJSON {
				return s.printLine(v)
			}
			s.printf("mbox %s (format %d, %s, %s)\n", v.Version, v.Format, v.Go, v.Platform)
			return nil
		},
	}
}

func thisVersion() versionInfo {
	v := versionInfo{Version: version, Format: audit.HomeFormat, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, set := range info.Settings {
		if set.Key == "vcs.revision" {
			v.Revision = set.Value
		}
	}
	if v.Version == "" {
		v.Version = cmp.Or(info.Main.Version, "(devel)")
	}
	return v
}
