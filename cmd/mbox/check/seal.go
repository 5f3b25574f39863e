package check

import (
	"errors"
	"path/filepath"
	"strings"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// seals looks which files of the ledger are append-only: with audit.append_only
// all before the newest should be. mbox does that where it may; else root does.
func (e *Exam) seals() {
	files, err := audit.Files(e.Home)
	if err != nil || len(files) == 0 {
		return // of a missing folder folders has told
	}
	finished, newest := files[:len(files)-1], files[len(files)-1:]
	var open []string
	for _, path := range finished {
		is, err := durable.Sealed(path)
		if !is && err == nil {
			open = append(open, path)
		}
	}
	is, err := durable.Sealed(newest[0])
	if is {
		e.add("append-only", Doubt, Unseal(newest), "%s is written to by appending only; recovery after a power cut may have to write over its end", filepath.Base(newest[0]))
	}
	switch {
	case !e.options.AppendOnly:
	case errors.Is(err, errors.ErrUnsupported):
		e.add("append-only", Doubt, "append_only = false in [audit] of mbox.toml", "this file system has no append-only files")
	case !e.check("append-only", err):
	case len(open) > 0:
		e.add("append-only", Doubt, chattr(sealCommand, open), "%d of %d finished files of the ledger can be written over: %s", len(open), len(finished), few(bases(open)))
	default:
		e.add("append-only", Fine, "", "all %d finished files of the ledger", len(finished))
	}
}

// chattr is the command line that changes the attribute of files of one folder, of
// the first hundred.
func chattr(command string, files []string) string {
	names := bases(files[:min(len(files), 100)])
	return "cd " + schemas.ShellWord(filepath.Dir(files[0])) + " && " + command + " " + strings.Join(names, " ")
}

func bases(files []string) []string {
	names := make([]string, len(files))
	for i, path := range files {
		names[i] = filepath.Base(path)
	}
	return names
}
